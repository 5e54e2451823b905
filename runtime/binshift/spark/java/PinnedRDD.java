package dev.binshift;

import java.util.Properties;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.rdd.RDD;

/**
 * An RDD that is its parent, partition by partition, but asks the scheduler for one executor each
 * ("executor_host_id"), in turn if there are fewer executors than partitions. Raw types: the run-time compiler infers no generics.
 */
public class PinnedRDD extends RDD {
  /** The local property of a task that has the number of the partition: in a union, that of the task is another. */
  private static final String PARTITION = "binshift.partition";

  private final String[] locations;

  public PinnedRDD(RDD parent, String[] locations) {
    super(parent, scala.reflect.ClassTag$.MODULE$.Any());
    this.locations = locations;
  }

  private RDD parent() {
    return ((Dependency) dependencies().head()).rdd();
  }

  public Partition[] getPartitions() {
    return parent().partitions();
  }

  public scala.collection.Iterator compute(Partition partition, TaskContext context) {
    Properties properties = ((TaskContextImpl) context).getLocalProperties();
    properties.setProperty(PARTITION, String.valueOf(partition.index()));
    return parent().iterator(partition, context);
  }

  public scala.collection.immutable.Seq getPreferredLocations(Partition partition) {
    return (scala.collection.immutable.Seq)
        scala.collection.immutable.Nil$.MODULE$.$colon$colon(locations[partition.index() % locations.length]);
  }
}
