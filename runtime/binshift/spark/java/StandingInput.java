package dev.binshift;

import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/**
 * Rows that come with an order of a standing task, as an RDD, so that what is computed of them can stay in the task from epoch to epoch. In
 * the driver it has partitions, and no rows.
 */
public class StandingInput extends RDD {
  /** The local property of a task that has the key of its source. */
  public static final String KEY = "binshift.standing.source";

  /** By key, where the rows of the orders under way are. */
  public static final ConcurrentHashMap SOURCES = new ConcurrentHashMap();

  private final int number;
  private final StructType schema;
  private final int parts;

  /** The rows of one order. */
  public interface Source {
    /** The rows of a partition of the input with this number and these columns. */
    scala.collection.Iterator rows(int number, StructType schema, int partition, TaskContext context);
  }

  public StandingInput(SparkContext context, int number, StructType schema, int parts) {
    super(context, (Seq) (Object) Nil$.MODULE$, ClassTag$.MODULE$.Any());
    this.number = number;
    this.schema = schema;
    this.parts = parts;
  }

  public int number() {
    return number;
  }

  public Partition[] getPartitions() {
    return Part.several(parts);
  }

  public scala.collection.Iterator compute(Partition partition, TaskContext context) {
    return ((Source) SOURCES.get(context.getLocalProperty(KEY))).rows(number, schema, partition.index(), context);
  }

  /** A partition with a number and nothing else. */
  public static class Part implements Partition {
    private final int index;

    public Part(int index) {
      this.index = index;
    }

    public int index() {
      return index;
    }

    public boolean org$apache$spark$Partition$$super$equals(Object other) {
      return this == other;
    }

    public static Partition[] several(int count) {
      Partition[] made = new Partition[count];
      for (int i = 0; i < count; i++) {
        made[i] = new Part(i);
      }
      return made;
    }
  }
}
