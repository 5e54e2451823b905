package dev.binshift;

import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD$;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchUserFuncException;
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Passes each batch of a stream to a function, as Spark's ForeachBatchSink does. That one generates the code of the batch's rows first, in every
 * batch; here they are computed when they are read, and standing tasks keep what computes them. Raw types: the run-time compiler infers no
 * generics.
 */
public class BatchSink implements Sink, StreamSinkProvider {
  /** The option with the name of a query's function. */
  private static final String FUNCTION = "function";

  /** By name, for streams that start. */
  private static final ConcurrentHashMap FUNCTIONS = new ConcurrentHashMap();

  private final PythonForeachBatchFunction function;
  private final BatchPlan.Known known = new BatchPlan.Known();

  public BatchSink(PythonForeachBatchFunction function) {
    this.function = function;
  }

  /** The provider. */
  public BatchSink() {
    this(null);
  }

  /** The function of the next stream that names it. */
  public static void put(String name, PythonForeachBatchFunction function) {
    FUNCTIONS.put(name, function);
  }

  public Sink createSink(SQLContext context, Map parameters, Seq partitions, OutputMode mode) {
    return new BatchSink((PythonForeachBatchFunction) FUNCTIONS.remove(parameters.apply(FUNCTION)));
  }

  public void addBatch(long number, Dataset given) {
    org.apache.spark.sql.classic.Dataset batch = (org.apache.spark.sql.classic.Dataset) given;
    LogicalRDD$ leaves = LogicalRDD$.MODULE$;
    BatchRows rows = new BatchRows(batch, known);
    SparkSession session = (SparkSession) batch.sparkSession();
    try {
      function.call(PlanTemplate.frame(session, leaves.fromDataset(rows, batch, false, leaves.fromDataset$default$4())), number);
    } catch (RuntimeException error) {
      // Spark's own kind of error, which is a checked one.
      Platform.throwException(error instanceof SparkThrowable ? error : new ForeachBatchUserFuncException(error));
    }
  }

  public String toString() {
    return "ForeachBatchSink";
  }
}
