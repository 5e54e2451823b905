package dev.binshift;

import java.time.Instant;
import org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTime;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.catalyst.util.DateTimeUtils$;
import scala.Function1;
import scala.Option;
import scala.runtime.AbstractPartialFunction;

/**
 * Makes the current time in a plan that of a micro-batch, as Spark does in the plan of a stream: what an epoch computes
 * in frames of its own must not depend on when, or how often, it runs.
 */
public class BatchTime extends AbstractPartialFunction {
  private final long millis;

  public BatchTime(long millis) {
    this.millis = millis;
  }

  public static LogicalPlan in(LogicalPlan plan, long millis) {
    if (!plan.containsPattern(TreePattern$.MODULE$.CURRENT_LIKE())) {
      return plan;
    }
    return (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new BatchTime(millis));
  }

  public boolean isDefinedAt(Object found) {
    return found instanceof CurrentTimestampLike
        || found instanceof CurrentDate
        || found instanceof LocalTimestamp
        || (found instanceof CurrentTime && ((CurrentTime) found).child().foldable());
  }

  public Object applyOrElse(Object found, Function1 otherwise) {
    if (!isDefinedAt(found)) {
      return otherwise.apply(found);
    }
    if (found instanceof CurrentTime) {
      CurrentTime time = (CurrentTime) found;
      String zone = (String) time.timeZoneId().get();
      long nanos = DateTimeUtils$.MODULE$.instantToNanosOfDay(Instant.ofEpochMilli(millis), zone);
      int precision = ((Integer) time.child().eval(null)).intValue();
      long cut = DateTimeUtils$.MODULE$.truncateTimeToPrecision(nanos, precision);
      return Literal$.MODULE$.create(Long.valueOf(cut), time.dataType());
    }
    Option zone =
        found instanceof CurrentDate
            ? ((CurrentDate) found).timeZoneId()
            : found instanceof LocalTimestamp ? ((LocalTimestamp) found).timeZoneId() : Option.empty();
    return new CurrentBatchTimestamp(millis, ((Expression) found).dataType(), zone).toLiteral();
  }
}
