package dev.binshift;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkTracker;
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.status.api.v1.ExecutorSummary;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * What the driver's Python calls, most of it in every epoch, each in one call: a call through py4j takes a good tenth of a millisecond. An
 * object, because Python finds an object's methods without the class loader of a thread. Raw types: the run-time compiler infers no
 * generics.
 */
public class Bridge {
  /** The frame with its partitions pinned to executors, whose names are separated by commas; see PinnedRDD. */
  public Dataset pin(SparkSession session, Dataset frame, String locations) {
    return pinned(session, frame.queryExecution().toRdd(), frame, locations);
  }

  /** The same of a template with its holes filled; see PlanTemplate and PlannedTemplate. */
  public Dataset pinFilled(SparkSession session, Dataset template, List pairs, Number millis, String locations) {
    Object[] holes = every(pairs, 0);
    Option before = SparkSession.getActiveSession();
    SparkSession.setActiveSession(session);
    try {
      PlannedTemplate.Planned planned = PlannedTemplate.of(session, template, holes);
      if (planned == null) {
        return pin(session, fill(session, template, pairs, millis), locations);
      }
      return pinned(session, PlannedTemplate.filled(session, planned, holes, every(pairs, 1)), planned.frame(), locations);
    } finally {
      restore(before);
    }
  }

  /** A stage in standing tasks; see StandingStage. Ids are separated by commas. */
  public StandingResult runStanding(
      StandingDriver driver, SparkSession session, Dataset template, List pairs, String readers, String owners, StandingRoute route,
      byte[] orders, Dataset applied, Dataset readHole, Dataset like, boolean later, int kept, boolean early) throws Exception {
    Option before = SparkSession.getActiveSession();
    SparkSession.setActiveSession(session);
    try {
      return StandingStage.run(
          driver, session, template, every(pairs, 0), every(pairs, 1), readers.split(","), owners.split(","), route, orders, applied, readHole,
          like.schema(), later, kept, early);
    } finally {
      restore(before);
    }
  }

  /** A batch that several stages read, in standing tasks; see StandingBatch. */
  public Dataset readStanding(StandingDriver driver, SparkSession session, Dataset hole, Dataset batch, String readers) throws Exception {
    Option before = SparkSession.getActiveSession();
    SparkSession.setActiveSession(session);
    try {
      return StandingBatch.of(driver, session, hole, batch, readers.split(","));
    } finally {
      restore(before);
    }
  }

  /** The next stream that names this function writes its batches to it; see BatchSink. */
  public void batchFunction(String name, PythonForeachBatchFunction function) {
    BatchSink.put(name, function);
  }

  /** For runStanding; see StandingRoute. */
  public StandingRoute standingRoute(byte[] places) {
    return new StandingRoute(places);
  }

  public StandingDriver standingDriver(String name) {
    return new StandingDriver(name);
  }

  /** A frame of one long task, on one executor; see StandingTask. */
  public Dataset standingTask(SparkSession session, String endpoint, String id, String location) {
    RDD task = new StandingTask(session.sparkContext(), endpoint, id, location);
    StructType schema = new StructType().add("id", "long");
    return session.internalCreateDataFrame(task, schema, false);
  }

  /** A physical plan takes its session from the thread, which had this one. */
  private static void restore(Option session) {
    if (session.isDefined()) {
      SparkSession.setActiveSession((SparkSession) session.get());
    } else {
      SparkSession.clearActiveSession();
    }
  }

  private static Dataset pinned(SparkSession session, RDD rows, Dataset like, String locations) {
    return session.internalCreateDataFrame(new PinnedRDD(rows, locations.split(",")), like.schema(), false);
  }

  private static Object[] every(List pairs, int first) {
    Object[] found = new Object[pairs.size() / 2];
    for (int i = 0; i < found.length; i++) {
      found[i] = pairs.get(2 * i + first);
    }
    return found;
  }

  /** The frame's rows through a pickled Python function over Arrow batches, in the environment of another function. */
  public Dataset mapInArrow(
      Dataset frame, PythonFunction like, byte[] command, List broadcasts, String schema, int evaluation) {
    SimplePythonFunction function =
        new SimplePythonFunction(
            command, like.envVars(), like.pythonIncludes(), like.pythonExec(), like.pythonVer(), broadcasts, like.accumulator());
    UserDefinedPythonFunction made =
        new UserDefinedPythonFunction(
            "binshift", function, DataType.fromJson(schema), evaluation, true, new ArrayList(), new ArrayList());
    ListBuffer columns = new ListBuffer();
    String[] names = frame.columns();
    for (int i = 0; i < names.length; i++) {
      columns.addOne(frame.apply(names[i]));
    }
    return frame.mapInArrow((Column) made.apply((Seq) columns.toList()), false, null);
  }

  public List list() {
    return new ArrayList();
  }

  /** A list to which more can be added. */
  public List pair(Dataset hole, Dataset frame) {
    List pair = list();
    pair.add(hole);
    pair.add(frame);
    return pair;
  }

  /** See PlanTemplate; the pairs are a hole and its frame, in turn. */
  public Dataset fill(SparkSession session, Dataset template, List pairs, Number millis) {
    return PlanTemplate.fill(session, template, every(pairs, 0), every(pairs, 1), millis);
  }

  public Dataset frame(SparkSession session, LogicalPlan plan) {
    return PlanTemplate.frame(session, plan);
  }

  public Dataset hole(SparkSession session, Seq attributes) {
    return PlanTemplate.hole(session, attributes);
  }

  /** The active executors: of each a line with its id, its host and port, and its cores, separated by tabs. */
  public String executors(JavaSparkContext context) {
    StringBuilder lines = new StringBuilder();
    Seq found = context.sc().statusStore().executorList(true);
    for (int i = 0; i < found.size(); i++) {
      ExecutorSummary each = (ExecutorSummary) found.apply(i);
      lines.append(each.id()).append('\t').append(each.hostPort()).append('\t').append(each.totalCores()).append('\n');
    }
    return lines.toString();
  }

  /** Spark's watermark for the batch after the running one of a query, all rows of which have been read. */
  public long nextWatermark(SparkSession session, String query) {
    MicroBatchExecution stream = SourceLimits.stream(session, query);
    WatermarkTracker tracker = stream.watermarkTracker();
    tracker.updateWatermark(stream.lastExecution().executedPlan());
    return tracker.currentWatermark();
  }

  public SourceLimits sourceLimits(SparkSession session, String query, long first) {
    return new SourceLimits(session, query, first);
  }

  public void awaitSource(String source, StreamingQuery query) throws InterruptedException {
    NudgeSource.await(source, query);
  }

  public void wakeUp(String source, boolean requireFinalEpoch) {
    NudgeSource.wakeUp(source, requireFinalEpoch);
  }

  public void wakeUpAt(String source, long millis) {
    NudgeSource.wakeUpAt(source, millis);
  }

  public void forget(String source) {
    NudgeSource.forget(source);
  }

  public Expression buffered(AggregateFunction function, Option filter) {
    return BufferedAggregate.buffered(function, filter);
  }

  public Expression merged(AggregateFunction function, Expression one, Expression other) {
    return BufferedAggregate.merged(function, one, other);
  }

  public Expression packed(AggregateFunction function, Expression columns) {
    return BufferedAggregate.packed(function, columns);
  }

  public Expression evaluated(AggregateFunction function, Expression buffers) {
    return BufferedAggregate.evaluated(function, buffers);
  }

  /** The files that tasks have written to a folder, as StagedFiles has them. */
  public String written(String folder) {
    return StagedFiles.take(folder);
  }
}
