package dev.binshift;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * A stage of an epoch in standing tasks. Its physical plan is the one that a Spark job would run, cut at its exchanges. The parts before and
 * behind them are made once, over the rows that come with an order, and tasks keep them; an epoch brings the RDDs of its frames. Raw types: the
 * run-time compiler infers no generics.
 */
public class StandingStage {
  /** By planned template, and by the numbers of partitions of what it reads, its parts. */
  private static final Map STAGES = new WeakHashMap();

  /** The most of them for one template, whose sources have ever other numbers of partitions. */
  private static final int SHAPES_MAX = 16;

  private final StandingReads[] before;

  /** Of the kept plans of batches. */
  private final ArrayList watermarks;

  private final Long number = StandingCode.number();
  private final byte[] behind;

  /** What Spark computes from the state, or null. */
  private final Long readNumber = StandingCode.number();
  private final byte[] read;

  private StandingStage(StandingReads[] before, ArrayList watermarks, byte[] behind, byte[] read) {
    this.before = before;
    this.watermarks = watermarks;
    this.behind = behind;
    this.read = read;
  }

  /** Replaces exchanges by what their tasks receive. */
  public static class Receiving extends AbstractPartialFunction {
    private final SparkSession session;
    private int exchanges = 0;

    public Receiving(SparkSession session) {
      this.session = session;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof ShuffleExchangeExec;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      ShuffleExchangeExec exchange = (ShuffleExchangeExec) node;
      int parts = exchange.outputPartitioning().numPartitions();
      RDD inbox = new StandingInput(session.sparkContext(), exchanges++, exchange.schema(), parts);
      return ReceivedRows.of(exchange.output(), inbox, "exchange", exchange.outputPartitioning());
    }
  }

  /**
   * Run one stage; null where it needs a Spark job, and nothing has run.
   *
   * @param template exchanges its rows by bin
   * @param readers the tasks that compute the rows before the exchange
   * @param owners the tasks that own bins
   * @param route of each bin its owner
   * @param orders by owner, each after its size: for S, and then for what reads the state, if applied is not null
   * @param applied a template over what is read of the state, and readHole its hole; null where Spark computes nothing from it
   * @param schema of what S returns
   * @param later whether blocks of an earlier stage of this run are still needed
   * @param kept bytes of output of a task that are returned to the driver; where there is no more, the frame is read without a job
   * @param early whether aggregations begin before the exchange
   */
  public static StandingResult run(
      StandingDriver driver, SparkSession session, Dataset template, Object[] holes, Object[] frames, String[] readers, String[] owners,
      StandingRoute route, byte[] orders, Dataset applied, Dataset readHole, StructType schema, boolean later, int kept,
      boolean early) throws Exception {
    PlannedTemplate.Planned planned = PlannedTemplate.of(session, template, holes);
    if (planned == null) {
      return null;
    }
    planned = early ? planned : planned.single(session);
    StandingFilling filling = new StandingFilling(PlannedTemplate.rows(session, planned, holes, frames), schemas(holes));
    StandingStage stage = of(session, planned, holes, filling, applied, readHole, route.bins);
    if (stage == null) {
      return null;
    }
    byte[][] sent = filling.bytes();
    Object[][][] sources = new Object[owners.length][stage.before.length][];
    StandingFilling.begin(stage.watermarks);
    for (int i = 0; i < stage.before.length; i++) {
      stage.before[i].send(driver, filling.inputs, sent, readers, route, owners.length, sources, i, later || i > 0);
    }
    filling.end(stage.watermarks);
    return stage.receive(driver, session, owners, sources, orders, schema, kept);
  }

  private static synchronized StandingStage of(
      SparkSession session, PlannedTemplate.Planned planned, Object[] holes, StandingFilling filling, Dataset applied, Dataset readHole,
      int bins) {
    Map shapes = (Map) STAGES.get(planned);
    if (shapes == null) {
      shapes = new HashMap();
      STAGES.put(planned, shapes);
    }
    if (filling.shuffles()) {
      return null;
    }
    String shape = filling.shape();
    if (!shapes.containsKey(shape)) {
      if (shapes.size() == SHAPES_MAX) {
        shapes.clear();
      }
      byte[] read = applied == null ? null : applied(session, applied, readHole, bins);
      shapes.put(shape, applied != null && read == null ? null : cut(session, planned, holes, filling, read));
    }
    return (StandingStage) shapes.get(shape);
  }

  private static StructType[] schemas(Object[] holes) {
    StructType[] found = new StructType[holes.length];
    for (int i = 0; i < found.length; i++) {
      found[i] = ((Dataset) holes[i]).schema();
    }
    return found;
  }

  /** A template over what is read of the state, for tasks; null if it needs a Spark job. */
  private static byte[] applied(SparkSession session, Dataset template, Dataset hole, int bins) {
    Object[] holes = new Object[] {hole};
    PlannedTemplate.Planned planned = PlannedTemplate.of(session, template, holes);
    if (planned == null) {
      return null;
    }
    RDD[] inputs = new RDD[] {new StandingInput(session.sparkContext(), 0, hole.schema(), bins)};
    RDD rows = PlannedTemplate.executed(session, PlannedTemplate.plan(planned, holes, inputs).execute());
    return StandingReads.shuffles(rows) ? null : forPython(session, rows, planned.frame().schema());
  }

  /** Rows and how they are passed to the Python worker. */
  private static byte[] forPython(SparkSession session, RDD rows, StructType schema) {
    boolean large = session.sessionState().conf().arrowUseLargeVarTypes();
    String zone = session.sessionState().conf().sessionLocalTimeZone();
    return StandingContext.bytes(new Object[] {rows, schema, zone, Boolean.valueOf(large)});
  }

  /** The parts of a plan, or null if it is not one that is cut at exchanges. */
  private static StandingStage cut(SparkSession session, PlannedTemplate.Planned planned, Object[] holes, StandingFilling filling, byte[] read) {
    ArrayList watermarks = new ArrayList();
    SparkPlan plan = PlannedTemplate.plan(planned, holes, filling.over(session.sparkContext(), watermarks));
    ArrayList exchanges = new ArrayList();
    if (!collect(plan, exchanges)) {
      return null;
    }
    StandingReads[] before = new StandingReads[exchanges.size()];
    for (int i = 0; i < before.length; i++) {
      RDD found = PlannedTemplate.executed(session, NumberedRows.of((ShuffleExchangeExec) exchanges.get(i)));
      if (StandingReads.shuffles(found)) {
        return null;
      }
      before[i] = new StandingReads(StandingCode.number(), found);
    }
    RDD behind = PlannedTemplate.executed(session, ((SparkPlan) plan.transformUp(new Receiving(session))).execute());
    StandingReads.shuffles(behind);
    return new StandingStage(before, watermarks, forPython(session, behind, planned.frame().schema()), read);
  }

  /** Collects the topmost exchanges; false if there is none, or another kind below. */
  private static boolean collect(SparkPlan plan, ArrayList exchanges) {
    if (plan instanceof ShuffleExchangeExec) {
      exchanges.add(plan);
      return !exchangesBelow(plan);
    }
    if (plan instanceof Exchange) {
      return false;
    }
    Seq children = plan.children();
    boolean found = true;
    for (int i = 0; i < children.size(); i++) {
      found &= collect((SparkPlan) children.apply(i), exchanges);
    }
    return found && children.size() > 0;
  }

  private static boolean exchangesBelow(SparkPlan plan) {
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      if (children.apply(i) instanceof Exchange || exchangesBelow((SparkPlan) children.apply(i))) {
        return true;
      }
    }
    return false;
  }

  public StandingResult receive(
      StandingDriver driver, SparkSession session, String[] owners, Object[][][] sources, byte[] given, StructType schema, int kept)
      throws Exception {
    Object[] orders = new Object[owners.length];
    DataInputStream from = new DataInputStream(new ByteArrayInputStream(given));
    for (int i = 0; i < owners.length; i++) {
      byte[] order = StandingDriver.next(from);
      Object[] code = driver.given(owners[i], number, behind);
      if (read == null) {
        orders[i] = new Object[] {"reduce", code, sources[i], Integer.valueOf(i), order, Integer.valueOf(kept)};
      } else {
        Object[] applied = new Object[] {"apply", driver.given(owners[i], readNumber, read)};
        orders[i] = new Object[] {"reduce", code, sources[i], Integer.valueOf(i), order, Integer.valueOf(kept), applied, StandingDriver.next(from)};
      }
    }
    Object[] answers = driver.ask(owners, orders);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream results = new DataOutputStream(bytes);
    ArrayList local = new ArrayList();
    boolean stored = false;
    for (int i = 0; i < owners.length; i++) {
      Object[] answer = (Object[]) answers[i];
      results.writeInt(((byte[]) answer[0]).length);
      results.write((byte[]) answer[0]);
      local.add(answer[2]);
      stored |= ((String[]) answer[1]).length > 0;
    }
    Dataset frame = kept > 0 && !stored ? null : stored(driver, session, owners, answers, schema);
    return new StandingResult(session, schema, local, frame, bytes.toByteArray());
  }

  public static Dataset stored(
      StandingDriver driver, SparkSession session, String[] owners, Object[] answers, StructType schema) {
    Object[][] blocks = new Object[owners.length][];
    Object[][] streams = new Object[owners.length][];
    String[] locations = new String[owners.length];
    for (int i = 0; i < owners.length; i++) {
      blocks[i] = driver.member(owners[i]).blocks((String[]) ((Object[]) answers[i])[1]);
      streams[i] = (Object[]) ((Object[]) answers[i])[2];
      locations[i] = driver.member(owners[i]).location();
    }
    RDD rows = new StandingOutput(session.sparkContext(), schema, blocks, streams, locations);
    return session.internalCreateDataFrame(rows, schema, false);
  }
}
