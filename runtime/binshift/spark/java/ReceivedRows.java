package dev.binshift;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.RDDScanExec;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Rows that come with an order, in the plan that a task keeps. They are what the plan expects: Spark's own scan of an RDD would convert each of
 * them, and generate the code of that conversion for every order. Raw types: the run-time compiler infers no generics.
 */
public class ReceivedRows extends RDDScanExec {
  public ReceivedRows(Seq output, RDD rows, String name, Partitioning partitioning, Seq ordering, Option stream) {
    super(output, rows, name, partitioning, ordering, stream);
  }

  public static ReceivedRows of(Seq output, RDD rows, String name, Partitioning partitioning) {
    return new ReceivedRows(output, rows, name, partitioning, (Seq) (Object) Nil$.MODULE$, Option.empty());
  }

  public RDD doExecute() {
    return rdd();
  }
}
