package dev.binshift;

import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SQLExecutionRDD;
import org.apache.spark.sql.execution.SQLExecutionRDD$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.storage.StorageLevel;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * A template that is planned once: its physical plan reads the holes' empty RDDs, in the place of which each epoch puts the rows of
 * frames of its own. Planning is most of what an epoch costs the driver. A template has to be planned for each epoch where its plan
 * depends on the epoch: it has the current time or a subquery, or reads something else than its holes. Raw types: the run-time compiler
 * infers no generics.
 */
public class PlannedTemplate extends AbstractPartialFunction {
  /** By template and session, the plan that is kept; null for a template that is planned for each epoch. */
  private static final Map PLANNED = new WeakHashMap();

  /** A template as a frame of a session, and its physical plan. */
  public static class Planned {
    private final Dataset frame;
    private final SparkPlan plan;
    private Planned single;

    private Planned(Dataset frame, SparkPlan plan) {
      this.frame = frame;
      this.plan = plan;
    }

    /** The same with aggregations that are behind the exchange as a whole. */
    public Planned single(SparkSession session) {
      if (single == null) {
        SparkPlan found = SingleAggregation.plan(session, frame);
        single = found == null ? this : new Planned(frame, found);
      }
      return single;
    }

    public Dataset frame() {
      return frame;
    }

    public SparkPlan plan() {
      return plan;
    }
  }

  private final RDD[] holes;
  private final RDD[] rows;

  private PlannedTemplate(RDD[] holes, RDD[] rows) {
    this.holes = holes;
    this.rows = rows;
  }

  /** The template's plan in the active session, or null if it depends on the epoch. */
  public static synchronized Planned of(SparkSession session, Dataset template, Object[] holes) {
    Map sessions = (Map) PLANNED.get(template);
    if (sessions == null) {
      sessions = new HashMap();
      PLANNED.put(template, sessions);
    }
    if (!sessions.containsKey(session)) {
      LogicalPlan plan = template.queryExecution().analyzed();
      boolean fixed = !dependsOnEpoch(plan);
      Planned planned = fixed ? planned(session, plan) : null;
      sessions.put(session, fixed && readsOnly(planned, new PlannedTemplate(rdds(holes), null)) ? planned : null);
    }
    return (Planned) sessions.get(session);
  }

  private static Planned planned(SparkSession session, LogicalPlan plan) {
    Dataset frame = PlanTemplate.frame(session, plan);
    return new Planned(frame, EarlyAggregation.plan(session, frame));
  }

  /** Whether a plan has the current time, or a subquery. */
  public static boolean dependsOnEpoch(LogicalPlan plan) {
    return plan.containsPattern(TreePattern$.MODULE$.CURRENT_LIKE()) || plan.containsPattern(TreePattern$.MODULE$.PLAN_EXPRESSION());
  }

  /** The physical plan of a planned template, with rows in the place of each hole. */
  public static SparkPlan plan(Planned planned, Object[] holes, RDD[] rows) {
    PlannedTemplate filling = new PlannedTemplate(rdds(holes), rows);
    return (SparkPlan) planned.plan().transformUp(filling);
  }

  /** Its rows. */
  public static RDD filled(SparkSession session, Planned planned, Object[] holes, Object[] frames) {
    return executed(session, plan(planned, holes, rows(session, planned, holes, frames)).execute());
  }

  /** The rows of a physical plan, whose tasks find the session's conf. */
  public static RDD executed(SparkSession session, RDD rows) {
    return new SQLExecutionRDD(rows, session.sessionState().conf(), SQLExecutionRDD$.MODULE$.$lessinit$greater$default$3());
  }

  /** The rows of each frame whose hole the plan reads; null for another one. */
  public static RDD[] rows(SparkSession session, Planned planned, Object[] holes, Object[] frames) {
    RDD[] found = new RDD[frames.length];
    PlannedTemplate known = new PlannedTemplate(rdds(holes), null);
    Seq leaves = planned.plan().collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      int at = known.at(leaves.apply(i));
      found[at] = found[at] == null ? rows(session, (Dataset) frames[at]) : found[at];
    }
    return found;
  }

  /** A frame's rows; those that Spark keeps, if it keeps them. A frame that is an RDD is not planned. */
  public static RDD rows(SparkSession session, Dataset frame) {
    LogicalPlan plan = frame.queryExecution().analyzed();
    if (!frame.storageLevel().equals(StorageLevel.NONE())) {
      return PlanTemplate.frame(session, plan).queryExecution().toRdd();
    }
    return plan instanceof LogicalRDD ? ((LogicalRDD) plan).rdd() : frame.queryExecution().toRdd();
  }

  private static RDD[] rdds(Object[] holes) {
    RDD[] found = new RDD[holes.length];
    for (int i = 0; i < holes.length; i++) {
      found[i] = ((LogicalRDD) ((Dataset) holes[i]).queryExecution().analyzed()).rdd();
    }
    return found;
  }

  private static boolean readsOnly(Planned planned, PlannedTemplate known) {
    Seq leaves = planned.plan().collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      if (!known.isDefinedAt(leaves.apply(i))) {
        return false;
      }
    }
    return true;
  }

  public boolean isDefinedAt(Object found) {
    return at(found) >= 0;
  }

  public Object applyOrElse(Object found, Function1 otherwise) {
    int at = at(found);
    if (at < 0) {
      return otherwise.apply(found);
    }
    RDDScanExec scan = (RDDScanExec) found;
    return scan.copy(scan.output(), rows[at], scan.name(), scan.outputPartitioning(), scan.outputOrdering(), scan.stream());
  }

  private int at(Object found) {
    if (found instanceof RDDScanExec) {
      for (int i = 0; i < holes.length; i++) {
        if (holes[i] == ((RDDScanExec) found).rdd()) {
          return i;
        }
      }
    }
    return -1;
  }
}
