package dev.binshift;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractPartialFunction;

/**
 * An analysed plan with holes: leaves without rows, in the place of which each epoch puts a frame of its own. The plan is
 * analysed once; filling it in costs neither names nor types. A hole is known by its (empty) RDD, which Spark keeps when it copies
 * the leaf. Raw types: the run-time compiler infers no generics.
 */
public class PlanTemplate extends AbstractPartialFunction {
  private final LogicalRDD[] holes;
  private final LogicalPlan[] filled;

  private PlanTemplate(LogicalRDD[] holes, LogicalPlan[] filled) {
    this.holes = holes;
    this.filled = filled;
  }

  /** A frame without rows whose columns are these attributes, ids included. */
  public static Dataset hole(SparkSession session, Seq output) {
    RDD empty = session.sparkContext().emptyRDD(ClassTag$.MODULE$.Any());
    Option none = Option.empty();
    LogicalPlan leaf =
        new LogicalRDD(output, empty, new UnknownPartitioning(0), (Seq) Nil$.MODULE$, false, none, session, none, none, false);
    return frame(session, leaf);
  }

  /** The frame of an analysed plan. */
  public static Dataset frame(SparkSession session, LogicalPlan plan) {
    plan.setAnalyzed();
    return Dataset$.MODULE$.ofRows(session, plan);
  }

  /** The template's frame with a frame in the place of each hole, column by column; the current time becomes millis, if not null. */
  public static Dataset fill(SparkSession session, Dataset template, Object[] holes, Object[] frames, Number millis) {
    LogicalRDD[] leaves = new LogicalRDD[holes.length];
    LogicalPlan[] plans = new LogicalPlan[frames.length];
    for (int i = 0; i < holes.length; i++) {
      leaves[i] = (LogicalRDD) ((Dataset) holes[i]).queryExecution().analyzed();
      plans[i] = ((Dataset) frames[i]).queryExecution().analyzed();
    }
    LogicalPlan plan = (LogicalPlan) template.queryExecution().analyzed().transformUp(new PlanTemplate(leaves, plans));
    return frame(session, millis == null ? plan : BatchTime.in(plan, millis.longValue()));
  }

  public boolean isDefinedAt(Object found) {
    return at(found) >= 0;
  }

  public Object applyOrElse(Object found, Function1 otherwise) {
    int at = at(found);
    return at < 0 ? otherwise.apply(found) : renamed(filled[at], ((LogicalRDD) found).output());
  }

  private int at(Object found) {
    if (found instanceof LogicalRDD) {
      for (int i = 0; i < holes.length; i++) {
        if (holes[i].rdd() == ((LogicalRDD) found).rdd()) {
          return i;
        }
      }
    }
    return -1;
  }

  private static LogicalPlan renamed(LogicalPlan plan, Seq wanted) {
    ListBuffer columns = new ListBuffer();
    for (int i = 0; i < wanted.size(); i++) {
      Attribute as = (Attribute) wanted.apply(i);
      Expression from = (Expression) plan.output().apply(i);
      columns.addOne(new Alias(from, as.name(), as.exprId(), (Seq) Nil$.MODULE$, Option.apply(as.metadata()), (Seq) Nil$.MODULE$));
    }
    return new Project(columns.toList(), plan);
  }
}
