package dev.binshift;

import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/**
 * Rows with the number of where they go: that of their bin, which is one of their columns, or of their partition. Spark's own exchange computes
 * the number by a projection, whose code it generates for every task. Raw types: the run-time compiler infers no generics.
 */
public class NumberedRows extends RDD {
  private static final int OF_PARTITION = -1;

  private final StructType schema;
  private final int column;

  private NumberedRows(RDD rows, StructType schema, int column) {
    super(rows, ClassTag$.MODULE$.Any());
    this.schema = schema;
    this.column = column;
  }

  public static RDD byPartition(RDD rows, StructType schema) {
    return new NumberedRows(rows, schema, OF_PARTITION);
  }

  /** What an exchange has to send. */
  public static RDD of(ShuffleExchangeExec exchange) {
    if (exchange.outputPartitioning() instanceof ShufflePartitionIdPassThrough) {
      Expression number = ((ShufflePartitionIdPassThrough) exchange.outputPartitioning()).expr().child();
      SparkPlan child = (SparkPlan) exchange.child();
      Seq columns = child.output();
      for (int i = 0; i < columns.size(); i++) {
        if (number instanceof Attribute && ((Attribute) columns.apply(i)).exprId().equals(((Attribute) number).exprId())) {
          return new NumberedRows(child.execute(), child.schema(), i);
        }
      }
    }
    return exchange.shuffleDependency().rdd();
  }

  private RDD rows() {
    return ((Dependency) dependencies().head()).rdd();
  }

  public Partition[] getPartitions() {
    return rows().partitions();
  }

  public scala.collection.Iterator compute(Partition partition, TaskContext context) {
    return new Pairs(rows().iterator(partition, context), schema, column, partition.index());
  }

  /** The rows of a partition, as unsafe rows. */
  public static class Pairs extends scala.collection.AbstractIterator {
    private final scala.collection.Iterator rows;
    private final StructType schema;
    private final int column;
    private final Integer partition;
    private UnsafeProjection unsafe = null;

    public Pairs(scala.collection.Iterator rows, StructType schema, int column, int partition) {
      this.rows = rows;
      this.schema = schema;
      this.column = column;
      this.partition = Integer.valueOf(partition);
    }

    public boolean hasNext() {
      return rows.hasNext();
    }

    public Object next() {
      InternalRow row = (InternalRow) rows.next();
      if (!(row instanceof UnsafeRow)) {
        unsafe = unsafe == null ? UnsafeProjection.create(schema) : unsafe;
        row = unsafe.apply(row);
      }
      return new Tuple2(column == OF_PARTITION ? partition : Integer.valueOf(row.getInt(column)), row);
    }
  }
}
