package dev.binshift;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * A stage of an epoch in standing tasks. Its physical plan is the one that a Spark job would run, cut at its exchanges: the parts before
 * them, over this epoch's rows, are sent as RDDs with every order; the part behind them depends on no epoch and is made once. Raw types: the
 * run-time compiler infers no generics.
 */
public class StandingStage {
  /** By planned template, its part behind the exchanges. */
  private static final Map STAGES = new WeakHashMap();

  private final Object[] behind;

  private StandingStage(Object[] behind) {
    this.behind = behind;
  }

  /** What a stage has returned. */
  public static class Result {
    private final Dataset frame;
    private final byte[] answers;

    public Result(Dataset frame, byte[] answers) {
      this.frame = frame;
      this.answers = answers;
    }

    public Dataset frame() {
      return frame;
    }

    /** What S has answered in each task, one after the other, each after its size. */
    public byte[] answers() {
      return answers;
    }
  }

  /** Replaces exchanges by what their tasks receive. */
  public static class Receiving extends AbstractPartialFunction {
    private final SparkSession session;
    private final ArrayList exchanges = new ArrayList();

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
      RDD inbox = new StandingRows.Inbox(session.sparkContext(), exchanges.size(), exchange.output().size(), parts);
      exchanges.add(exchange);
      return new RDDScanExec(
          exchange.output(), inbox, "exchange", exchange.outputPartitioning(), (Seq) (Object) Nil$.MODULE$, Option.empty());
    }
  }

  public static synchronized StandingStage of(SparkSession session, Dataset planned, SparkPlan plan, boolean large) {
    StandingStage found = (StandingStage) STAGES.get(planned);
    if (found == null) {
      SparkPlan behind = (SparkPlan) plan.transformUp(new Receiving(session));
      String zone = session.sessionState().conf().sessionLocalTimeZone();
      byte[] rdd = StandingContext.bytes(executed(session, behind.execute()));
      found = new StandingStage(new Object[] {rdd, planned.schema().json(), zone, Boolean.valueOf(large)});
      STAGES.put(planned, found);
    }
    return found;
  }

  private static RDD executed(SparkSession session, RDD rows) {
    RDD made = PlannedTemplate.executed(session, rows);
    shuffles(made); // once asked for, dependencies are sent along
    return made;
  }

  /**
   * Run one stage; null where it needs a Spark job, and nothing has run.
   *
   * @param readers the tasks that compute the rows before the exchange
   * @param owners the task of each partition behind it
   * @param orders for S, by partition, each after its size
   * @param later whether blocks of an earlier stage of this run are still needed
   * @param kept bytes of output of a task that are returned to the driver; where there is no more, the frame is read without a job
   */
  public static Result run(
      StandingDriver driver, SparkSession session, Dataset template, Object[] holes, Object[] frames, String[] readers, String[] owners,
      byte[] orders, String schema, boolean later, int kept) throws Exception {
    Dataset planned = PlannedTemplate.of(session, template, holes);
    if (planned == null) {
      return null;
    }
    SparkPlan plan = PlannedTemplate.plan(session, planned, holes, frames);
    ArrayList exchanges = new ArrayList();
    if (!cut(plan, exchanges)) {
      return null;
    }
    RDD[] before = new RDD[exchanges.size()];
    for (int i = 0; i < before.length; i++) {
      before[i] = ((ShuffleExchangeExec) exchanges.get(i)).shuffleDependency().rdd();
      if (shuffles(before[i])) {
        return null;
      }
    }
    StandingStage stage = of(session, planned, plan, session.sessionState().conf().arrowUseLargeVarTypes());
    Object[][][] sources = new Object[owners.length][before.length][];
    for (int i = 0; i < before.length; i++) {
      send(driver, executed(session, before[i]), readers, owners.length, sources, i, later || i > 0);
    }
    return stage.receive(driver, session, owners, sources, orders, (StructType) DataType.fromJson(schema), kept);
  }

  /** Collects the topmost exchanges; false if there is none, or another kind below. */
  private static boolean cut(SparkPlan plan, ArrayList exchanges) {
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
      found &= cut((SparkPlan) children.apply(i), exchanges);
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

  /** Whether these rows need a job with a shuffle. */
  private static boolean shuffles(RDD rows) {
    Seq found = rows.dependencies();
    rows.partitions();
    boolean any = false;
    for (int i = 0; i < found.size(); i++) {
      any |= found.apply(i) instanceof ShuffleDependency || shuffles(((Dependency) found.apply(i)).rdd());
    }
    return any;
  }

  private static void send(
      StandingDriver driver, RDD rows, String[] readers, int owners, Object[][][] sources, int exchange, boolean later)
      throws Exception {
    byte[] sent = StandingContext.bytes(rows);
    Partition[] parts = rows.partitions();
    ArrayList[] shares = new ArrayList[readers.length];
    for (int i = 0; i < shares.length; i++) {
      shares[i] = new ArrayList();
    }
    for (int i = 0; i < parts.length; i++) {
      shares[preferred(driver, rows, parts[i], readers, i)].add(StandingContext.bytes(parts[i]));
    }
    Object[] orders = new Object[readers.length];
    for (int i = 0; i < readers.length; i++) {
      orders[i] = new Object[] {"map", Boolean.valueOf(later), sent, shares[i].toArray(), Integer.valueOf(owners)};
    }
    Object[] answers = driver.ask(readers, orders);
    ArrayList[] found = new ArrayList[owners];
    for (int i = 0; i < owners; i++) {
      found[i] = new ArrayList();
    }
    for (int i = 0; i < readers.length; i++) {
      Object[] answer = (Object[]) answers[i];
      byte[][] metrics = (byte[][]) answer[1];
      for (int j = 0; j < metrics.length; j++) {
        StandingContext.add(metrics[j]);
      }
      for (int j = 0; j < owners; j++) {
        found[j].addAll(Arrays.asList(blocks(driver, readers[i], (String[]) ((Object[]) answer[0])[j])));
      }
    }
    for (int i = 0; i < owners; i++) {
      sources[i][exchange] = found[i].toArray();
    }
  }

  /** The reader on an executor that the rows prefer, or else each in turn. */
  private static int preferred(StandingDriver driver, RDD rows, Partition part, String[] readers, int number) {
    Seq locations = rows.preferredLocations(part);
    for (int i = 0; i < locations.size(); i++) {
      Object location = locations.apply(i);
      for (int j = 0; j < readers.length; j++) {
        StandingDriver.Member member = driver.member(readers[j]);
        if (location.equals(member.host) || location.equals(member.location())) {
          return j;
        }
      }
    }
    return number % readers.length;
  }

  /** Host, port, executor and name of each block, in turn. */
  private static Object[] blocks(StandingDriver driver, String id, String[] names) {
    StandingDriver.Member member = driver.member(id);
    Object[] found = new Object[4 * names.length];
    for (int i = 0; i < names.length; i++) {
      found[4 * i] = member.host;
      found[4 * i + 1] = Integer.valueOf(member.port);
      found[4 * i + 2] = member.executor;
      found[4 * i + 3] = names[i];
    }
    return found;
  }

  public Result receive(
      StandingDriver driver, SparkSession session, String[] owners, Object[][][] sources, byte[] given, StructType schema, int kept)
      throws Exception {
    Object[] orders = new Object[owners.length];
    DataInputStream from = new DataInputStream(new ByteArrayInputStream(given));
    for (int i = 0; i < owners.length; i++) {
      byte[] order = new byte[from.readInt()];
      from.readFully(order);
      orders[i] = new Object[] {"reduce", behind, sources[i], Integer.valueOf(i), order, Integer.valueOf(kept)};
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
    Dataset frame = kept > 0 && !stored ? StandingOutput.local(session, schema, local) : stored(driver, session, owners, answers, schema);
    return new Result(frame, bytes.toByteArray());
  }

  public static Dataset stored(
      StandingDriver driver, SparkSession session, String[] owners, Object[] answers, StructType schema) {
    Object[][] blocks = new Object[owners.length][];
    Object[][] streams = new Object[owners.length][];
    String[] locations = new String[owners.length];
    for (int i = 0; i < owners.length; i++) {
      blocks[i] = blocks(driver, owners[i], (String[]) ((Object[]) answers[i])[1]);
      streams[i] = (Object[]) ((Object[]) answers[i])[2];
      locations[i] = driver.member(owners[i]).location();
    }
    RDD rows = new StandingOutput(session.sparkContext(), schema, blocks, streams, locations);
    return session.internalCreateDataFrame(rows, schema, false);
  }
}
