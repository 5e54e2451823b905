package dev.binshift;

import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** What S has returned in standing tasks, one partition each: Arrow streams, each in a block. */
public class StandingOutput extends RDD {
  private final StructType schema;
  private final Object[][] blocks;
  private final Object[][] streams;
  private final String[] locations;

  /** blocks: for each partition host, port, executor and name of its blocks, in turn; streams: those in no block. */
  public StandingOutput(SparkContext context, StructType schema, Object[][] blocks, Object[][] streams, String[] locations) {
    super(context, (Seq) (Object) Nil$.MODULE$, ClassTag$.MODULE$.Any());
    this.schema = schema;
    this.blocks = blocks;
    this.streams = streams;
    this.locations = locations;
  }

  public Partition[] getPartitions() {
    return StandingInput.Part.several(blocks.length);
  }

  public scala.collection.Iterator compute(Partition partition, TaskContext context) {
    return new Rows(blocks[partition.index()], streams[partition.index()], schema, context);
  }

  public Seq getPreferredLocations(Partition partition) {
    return (Seq) Nil$.MODULE$.$colon$colon(locations[partition.index()]);
  }

  /** What the Python worker of this task has read of the state. */
  public static class Read implements StandingInput.Source {
    private final Object[] blocks;
    private final Object[] streams;

    /** answer: as StandingAnswer has it. */
    public Read(Object[] answer) {
      this.blocks = StandingBlocks.own((String[]) answer[1]);
      this.streams = (Object[]) answer[2];
    }

    public scala.collection.Iterator rows(int number, StructType schema, int partition, TaskContext context) {
      return new Rows(blocks, streams, schema, context);
    }
  }

  /** The rows, as Spark's operators expect them. */
  public static class Rows extends scala.collection.AbstractIterator {
    private final Object[] blocks;
    private final Object[] streams;
    private final TaskContext context;
    private final UnsafeProjection unsafe;
    private scala.collection.Iterator rows = scala.collection.Iterator$.MODULE$.empty();
    private int block = 0;
    private int stream = 0;

    public Rows(Object[] blocks, Object[] streams, StructType schema, TaskContext context) {
      this.blocks = blocks;
      this.streams = streams;
      this.context = context;
      this.unsafe = Projections.take(schema, context);
    }

    public boolean hasNext() {
      while (!rows.hasNext() && (block < blocks.length || stream < streams.length)) {
        byte[] data = block < blocks.length ? stored() : (byte[]) streams[stream++];
        rows = (scala.collection.Iterator) ((Tuple2) ArrowConverters$.MODULE$.fromIPCStreamWithIterator(data, context))._1();
      }
      return rows.hasNext();
    }

    private byte[] stored() {
      int at = block;
      block += 4;
      return StandingBlocks.read(blocks, at);
    }

    public Object next() {
      return unsafe.apply((InternalRow) rows.next());
    }
  }
}
