package dev.binshift;

import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Final$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;
import scala.runtime.AbstractPartialFunction;

/**
 * Makes the two halves of an aggregation one, behind the exchange by worker: for rows most of which have a key of their own, which a half
 * before the exchange would not reduce. Raw types: the run-time compiler infers no generics.
 */
public class SingleAggregation extends AbstractPartialFunction {
  private static final EarlyAggregation HALVES = new EarlyAggregation();

  /** The physical plan of a frame of the active session; null if it has no aggregation that EarlyAggregation divides. */
  public static SparkPlan plan(SparkSession session, Dataset frame) {
    SparkPlan planned = frame.queryExecution().sparkPlan();
    SparkPlan single = (SparkPlan) planned.transformUp(new SingleAggregation());
    return single == planned ? null : QueryExecution$.MODULE$.prepareExecutedPlan(session, single);
  }

  public boolean isDefinedAt(Object node) {
    if (!(node instanceof BaseAggregateExec) || !HALVES.isDefinedAt(((SparkPlan) node).children().apply(0))) {
      return false;
    }
    Seq found = ((BaseAggregateExec) node).aggregateExpressions();
    for (int i = 0; i < found.size(); i++) {
      if (((AggregateExpression) found.apply(i)).mode() != Final$.MODULE$) {
        return false;
      }
    }
    return true;
  }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) {
      return otherwise.apply(node);
    }
    BaseAggregateExec second = (BaseAggregateExec) node;
    SparkPlan firstHalf = (SparkPlan) ((SparkPlan) node).children().apply(0);
    BaseAggregateExec first = (BaseAggregateExec) firstHalf;
    // All physical aggregations have these arguments.
    Object[] arguments = {
      first.requiredChildDistributionExpressions(), Boolean.valueOf(first.isStreaming()), first.numShufflePartitions(),
      first.groupingExpressions(), whole(first.aggregateExpressions()), second.aggregateAttributes(), Integer.valueOf(0),
      second.resultExpressions(), firstHalf.children().apply(0)
    };
    return firstHalf.makeCopy(arguments);
  }

  private static Seq whole(Seq halves) {
    ListBuffer found = new ListBuffer();
    for (int i = 0; i < halves.size(); i++) {
      AggregateExpression half = (AggregateExpression) halves.apply(i);
      found.append(half.copy(half.aggregateFunction(), Complete$.MODULE$, half.isDistinct(), half.filter(), half.resultId()));
    }
    return found.toList();
  }
}
