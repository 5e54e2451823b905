package dev.binshift;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;
import scala.runtime.AbstractPartialFunction;

/**
 * Moves the first half of an aggregation before the exchange by worker. Spark plans both halves behind it, as the rows of a key are together
 * there. Before it, every task reduces the rows that it has read, so that one key with most of the rows is work for all workers and a few
 * rows for its owner. Raw types: the run-time compiler infers no generics.
 */
public class EarlyAggregation extends AbstractPartialFunction {
  /** The physical plan of a frame of the active session, with the first halves of its aggregations before exchanges. */
  public static SparkPlan plan(SparkSession session, Dataset frame) {
    SparkPlan planned = frame.queryExecution().sparkPlan();
    SparkPlan early = (SparkPlan) planned.transformUp(new EarlyAggregation());
    return early == planned ? frame.queryExecution().executedPlan() : QueryExecution$.MODULE$.prepareExecutedPlan(session, early);
  }

  /** Whether a node is the first half of an aggregation, behind an exchange that it can change places with. */
  public boolean isDefinedAt(Object node) {
    if (!(node instanceof BaseAggregateExec) || !isFirstHalf((BaseAggregateExec) node)) {
      return false;
    }
    SparkPlan child = (SparkPlan) ((SparkPlan) node).children().apply(0);
    return child instanceof ShuffleExchangeExec && hasPartition((SparkPlan) node, (ShuffleExchangeExec) child);
  }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!isDefinedAt(node)) {
      return otherwise.apply(node);
    }
    SparkPlan aggregation = (SparkPlan) node;
    SparkPlan exchange = (SparkPlan) aggregation.children().apply(0);
    return exchange.withNewChildren(only(aggregation.withNewChildren(exchange.children())));
  }

  private static boolean isFirstHalf(BaseAggregateExec aggregation) {
    Seq found = aggregation.aggregateExpressions();
    for (int i = 0; i < found.size(); i++) {
      if (((AggregateExpression) found.apply(i)).mode() != Partial$.MODULE$) {
        return false;
      }
    }
    return found.size() > 0;
  }

  /** Whether the aggregation returns the column that the exchange reads. */
  private static boolean hasPartition(SparkPlan aggregation, ShuffleExchangeExec exchange) {
    Object partitioning = exchange.outputPartitioning();
    return partitioning instanceof Expression && ((Expression) partitioning).references().subsetOf(aggregation.outputSet());
  }

  private static Seq only(Object node) {
    ListBuffer list = new ListBuffer();
    list.append(node);
    return list.toList();
  }
}
