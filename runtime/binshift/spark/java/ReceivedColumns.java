package dev.binshift;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.RDDScanExec;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** As ReceivedRows, of a scan that returns columns, whose classes the generated code of its reader names. */
public class ReceivedColumns extends RDDScanExec {
  private final Option vectors;

  public ReceivedColumns(Seq output, RDD rows, String name, Partitioning partitioning, Seq ordering, Option stream, Option vectors) {
    super(output, rows, name, partitioning, ordering, stream);
    this.vectors = vectors;
  }

  /** For Spark's copies. */
  public Seq otherCopyArgs() {
    return (Seq) Nil$.MODULE$.$colon$colon(vectors);
  }

  public boolean supportsColumnar() {
    return true;
  }

  public Option vectorTypes() {
    return vectors;
  }

  public RDD doExecuteColumnar() {
    return rdd();
  }
}
