package dev.binshift;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.metrics.MetricsSystem;
import org.apache.spark.serializer.SerializerInstance;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.util.AccumulatorContext;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.mutable.ArrayBuffer;
import scala.reflect.ClassTag$;

/**
 * What Spark gives each task, for one order of a standing task: memory that is released, listeners that are called, and metrics that
 * the driver adds to those of its plan. Raw types: the run-time compiler infers no generics.
 */
public class StandingContext {
  /** Far above the ids of Spark's own tasks in any executor. */
  private static final AtomicLong ATTEMPTS = new AtomicLong(1L << 40);

  private final TaskContextImpl task;
  private final TaskContextImpl context;
  private final String key;

  /** source: of the rows of this order, or null. */
  public StandingContext(TaskContextImpl task, int partition, StandingInput.Source source) {
    long attempt = ATTEMPTS.incrementAndGet();
    Properties properties = new Properties();
    key = String.valueOf(attempt);
    if (source != null) {
      properties.setProperty(StandingInput.KEY, key);
      StandingInput.SOURCES.put(key, source);
    }
    this.task = task;
    this.context =
        new TaskContextImpl(
            task.stageId(), task.stageAttemptNumber(), partition, attempt, 0, task.numPartitions(),
            new TaskMemoryManager(StandingEnv.memoryManager(), attempt), properties, (MetricsSystem) null, TaskMetrics.empty(),
            scala.math.BigDecimal$.MODULE$.apply(1), (scala.collection.immutable.Map) Map$.MODULE$.empty());
    StandingEnv.blockManager().registerTask(attempt);
    TaskContext$.MODULE$.setTaskContext(context);
  }

  public TaskContextImpl context() {
    return context;
  }

  /** What the plan's metrics and the user's accumulators have counted; see add. */
  public byte[] metrics() {
    return bytes(accumulators(true).toArray());
  }

  /** The accumulators of what has been read in this context; those of Spark's operators only if asked for. */
  private ArrayList accumulators(boolean operators) {
    ArrayBuffer all = context.taskMetrics()._externalAccums();
    ArrayList found = new ArrayList();
    for (int i = 0; i < all.size(); i++) {
      if (operators || !(all.apply(i) instanceof SQLMetric)) {
        found.add(all.apply(i));
      }
    }
    return found;
  }

  /** Something that a task keeps, in front of its accumulators other than those of Spark's operators, which nothing reads. */
  public static Object[] kept(TaskContextImpl task, byte[] content) {
    StandingContext within = new StandingContext(task, 0, null);
    try {
      Object found = read(content);
      return new Object[] {found, within.accumulators(false)};
    } finally {
      within.end();
    }
  }

  /** What is kept, to be used for this order: its accumulators begin again. */
  public Object use(Object[] kept) {
    ArrayList accumulators = (ArrayList) kept[1];
    for (int i = 0; i < accumulators.size(); i++) {
      ((AccumulatorV2) accumulators.get(i)).reset();
      context.registerAccumulator((AccumulatorV2) accumulators.get(i));
    }
    return kept[0];
  }

  public void end() {
    StandingInput.SOURCES.remove(key);
    try {
      context.markTaskCompleted(Option.empty());
    } finally {
      StandingEnv.blockManager().releaseAllLocksForTask(context.taskAttemptId());
      StandingEnv.memoryManager().releaseAllExecutionMemoryForTask(context.taskAttemptId());
      TaskContext$.MODULE$.setTaskContext(task);
    }
  }

  /** The driver's side of metrics. */
  public static void add(byte[] metrics) {
    Object[] all = (Object[]) read(metrics);
    for (int i = 0; i < all.length; i++) {
      AccumulatorV2 from = (AccumulatorV2) all[i];
      Option to = AccumulatorContext.get(from.id());
      if (to.isDefined()) {
        ((AccumulatorV2) to.get()).merge(from);
      }
    }
  }

  public static byte[] bytes(Object value) {
    ByteBuffer data = serializer().serialize(value, ClassTag$.MODULE$.Any());
    byte[] found = new byte[data.remaining()];
    data.get(found);
    return found;
  }

  public static Object read(byte[] bytes) {
    return serializer().deserialize(
        ByteBuffer.wrap(bytes), Thread.currentThread().getContextClassLoader(), ClassTag$.MODULE$.Any());
  }

  private static SerializerInstance serializer() {
    return StandingEnv.serializer().newInstance();
  }
}
