package dev.binshift;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/**
 * The rows of a batch that several stages read. They are computed once, and stay in blocks of the tasks that have computed them. Partitions are
 * the batch's own, with the same order of rows, wherever they are computed. Raw types: the run-time compiler infers no generics.
 */
public class StandingBatch extends RDD {
  /** By hole of the batch, and by shape, what computes its rows; see StandingFilling. */
  private static final Map READS = new WeakHashMap();

  /** The most of them for one hole; see StandingStage. */
  private static final int SHAPES_MAX = 16;

  private final Object[][] blocks;
  private final String[] locations;
  private final StructType schema;

  private StandingBatch(SparkContext context, Object[][] blocks, String[] locations, StructType schema) {
    super(context, (Seq) (Object) Nil$.MODULE$, ClassTag$.MODULE$.Any());
    this.blocks = blocks;
    this.locations = locations;
    this.schema = schema;
  }

  /** What computes the rows of one shape. */
  private static class Reads {
    private final ArrayList watermarks = new ArrayList();
    private final StandingReads reads;
    private final StandingRoute places;

    private Reads(SparkSession session, StandingFilling filling, StructType schema) {
      RDD rows = NumberedRows.byPartition(filling.over(session.sparkContext(), watermarks)[0], schema);
      reads = new StandingReads(StandingCode.number(), PlannedTemplate.executed(session, rows));
      places = StandingRoute.each(rows.partitions().length);
    }
  }

  /** Let the readers compute a batch; null if it needs a job, and nothing has run. */
  public static Dataset of(StandingDriver driver, SparkSession session, Dataset hole, Dataset batch, String[] readers) throws Exception {
    StructType schema = hole.schema();
    StandingFilling filling = new StandingFilling(new RDD[] {PlannedTemplate.rows(session, batch)}, new StructType[] {schema});
    if (filling.shuffles()) {
      return null;
    }
    Reads found = found(session, hole, filling, schema);
    Object[][][] sources = new Object[found.places.bins][1][];
    StandingFilling.begin(found.watermarks);
    found.reads.send(driver, filling.inputs, filling.bytes(), readers, found.places, found.places.bins, sources, 0, false);
    filling.end(found.watermarks);
    Object[][] blocks = new Object[sources.length][];
    String[] locations = new String[sources.length];
    for (int i = 0; i < blocks.length; i++) {
      blocks[i] = sources[i][0];
      locations[i] = driver.member(blocks[i].length == 0 ? readers[0] : (String) blocks[i][2]).location();
    }
    return session.internalCreateDataFrame(new StandingBatch(session.sparkContext(), blocks, locations, schema), schema, false);
  }

  private static synchronized Reads found(SparkSession session, Dataset hole, StandingFilling filling, StructType schema) {
    Map shapes = (Map) READS.get(hole);
    if (shapes == null) {
      shapes = new HashMap();
      READS.put(hole, shapes);
    }
    String shape = filling.shape();
    if (!shapes.containsKey(shape)) {
      if (shapes.size() == SHAPES_MAX) {
        shapes.clear();
      }
      shapes.put(shape, new Reads(session, filling, schema));
    }
    return (Reads) shapes.get(shape);
  }

  public Partition[] getPartitions() {
    return StandingInput.Part.several(blocks.length);
  }

  public scala.collection.Iterator compute(Partition partition, TaskContext context) {
    return new StandingRows.Rows(blocks[partition.index()]).of(schema.length());
  }

  public Seq getPreferredLocations(Partition partition) {
    return (Seq) Nil$.MODULE$.$colon$colon(locations[partition.index()]);
  }
}
