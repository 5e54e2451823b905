package dev.binshift;

import org.apache.spark.Dependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.classic.Dataset;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** The rows of a batch, by Spark's plan of it, whose code is generated when they are first needed. */
public class BatchRows extends RDD {
  private final transient Dataset batch;
  private final transient BatchPlan.Known known;

  public BatchRows(Dataset batch, BatchPlan.Known known) {
    super(batch.sparkSession().sparkContext(), (Seq) (Object) Nil$.MODULE$, ClassTag$.MODULE$.Any());
    this.batch = batch;
    this.known = known;
  }

  /** The plan of the rows without what differs from batch to batch, or null if it cannot be kept. */
  public BatchPlan.Cut cut() {
    return known.cut(batch.queryExecution().executedPlan());
  }

  public Seq getDependencies() {
    batch.queryExecution().executedPlan().resetMetrics(); // see StandingFilling
    return (Seq) Nil$.MODULE$.$colon$colon(new OneToOneDependency(batch.queryExecution().toRdd()));
  }

  private RDD rows() {
    return ((Dependency) dependencies().head()).rdd();
  }

  public Partition[] getPartitions() {
    return rows().partitions();
  }

  public scala.collection.Iterator compute(Partition partition, TaskContext context) {
    return rows().iterator(partition, context);
  }

  public Seq getPreferredLocations(Partition partition) {
    return rows().preferredLocations(partition);
  }
}
