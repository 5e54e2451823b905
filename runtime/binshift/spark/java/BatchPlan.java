package dev.binshift;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.GenerateExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.StreamSourceAwareSparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractPartialFunction;

/**
 * Spark's plan of a query's batches, which is the same from batch to batch except for what its scans read. Tasks keep it, and a batch brings
 * the rows of its scans. Spark makes the plan of each batch; it is kept if it is the second one that is equal. Raw types: the run-time compiler
 * infers no generics.
 */
public class BatchPlan {
  private final SparkPlan plan;

  /** For a shape: see StandingFilling. */
  public final Long number = StandingCode.number();

  private BatchPlan(SparkPlan plan) {
    this.plan = plan;
  }

  /** A plan whose scans are holes, and the scans and the watermarks of one batch. */
  public static class Cut {
    public final ArrayList scans = new ArrayList();
    public final ArrayList watermarks = new ArrayList();
    private SparkPlan plan;
    private BatchPlan kept;

    /** The same with the scans of every batch; null if no equal one has been there before. */
    public BatchPlan kept() {
      return kept;
    }
  }

  /** The plan's rows; inputs: the rows of its scans; its watermarks are added to the list. */
  public RDD rows(RDD[] inputs, ArrayList watermarks) {
    SparkPlan filled = (SparkPlan) plan.transformUp(new Filling(inputs));
    collect(filled, watermarks);
    return filled.execute();
  }

  /** The plans of one query. */
  public static class Known {
    private static final int KNOWN_MAX = 16;

    /** By canonical plan, its kept one; null after the first time. */
    private final Map plans = new LinkedHashMap(KNOWN_MAX, 0.75f, true);

    private final IdentityHashMap streams = new IdentityHashMap();

    /** In holes: plans with the same one can be equal. */
    private RDD none = null;

    /** Cuts a batch's plan at its scans; null if it has other parts than rows pass one by one. */
    public synchronized Cut cut(SparkPlan plan) {
      Cut cut = new Cut();
      if (plan.containsPattern(TreePattern$.MODULE$.PLAN_EXPRESSION()) || !keeps(plan)) {
        return null;
      }
      none = none == null ? plan.session().sparkContext().emptyRDD(ClassTag$.MODULE$.Any()) : none;
      cut.plan = (SparkPlan) plan.transformUp(new Cutting(cut.scans, streams, none));
      collect(plan, cut.watermarks);
      SparkPlan canonical = (SparkPlan) cut.plan.canonicalized();
      if (plans.containsKey(canonical)) {
        cut.kept = plans.get(canonical) == null ? new BatchPlan(cut.plan) : (BatchPlan) plans.get(canonical);
      } else if (plans.size() == KNOWN_MAX) {
        plans.remove(plans.keySet().iterator().next());
      }
      plans.put(canonical, cut.kept);
      return cut;
    }

    private static boolean keeps(SparkPlan plan) {
      if (isScan(plan)) {
        return true;
      }
      boolean found =
          plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter || plan instanceof ProjectExec || plan instanceof FilterExec
              || plan instanceof ExpandExec || plan instanceof GenerateExec || plan instanceof UnionExec || plan instanceof ColumnarToRowExec
              || plan instanceof EventTimeWatermarkExec || plan instanceof LocalTableScanExec;
      Seq children = plan.children();
      for (int i = 0; i < children.size() && found; i++) {
        found = keeps((SparkPlan) children.apply(i));
      }
      return found;
    }
  }

  /** Whether a node reads a stream. */
  private static boolean isScan(Object node) {
    return node instanceof StreamSourceAwareSparkPlan && ((StreamSourceAwareSparkPlan) node).getStream().isDefined();
  }

  private static void collect(SparkPlan plan, ArrayList watermarks) {
    if (plan instanceof EventTimeWatermarkExec) {
      watermarks.add(plan);
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      collect((SparkPlan) children.apply(i), watermarks);
    }
  }

  /** Replaces scans by holes, which are equal if they have the same columns of the same stream. */
  public static class Cutting extends AbstractPartialFunction {
    private final ArrayList scans;
    private final IdentityHashMap streams;
    private final RDD none;

    public Cutting(ArrayList scans, IdentityHashMap streams, RDD none) {
      this.scans = scans;
      this.streams = streams;
      this.none = none;
    }

    public boolean isDefinedAt(Object node) {
      return isScan(node);
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      SparkPlan scan = (SparkPlan) node;
      scans.add(scan);
      return hole(scan, none, number(((StreamSourceAwareSparkPlan) node).getStream().get()) + ": " + scan.schema().catalogString());
    }

    private String number(Object stream) {
      if (!streams.containsKey(stream)) {
        streams.put(stream, "stream " + streams.size());
      }
      return (String) streams.get(stream);
    }
  }

  private static SparkPlan hole(SparkPlan like, RDD rows, String name) {
    Partitioning parts = new UnknownPartitioning(rows.partitions().length);
    return like.supportsColumnar()
        ? new ReceivedColumns(like.output(), rows, name, parts, (Seq) (Object) Nil$.MODULE$, Option.empty(), like.vectorTypes())
        : ReceivedRows.of(like.output(), rows, name, parts);
  }

  /** Puts rows in the place of holes, in their order. */
  public static class Filling extends AbstractPartialFunction {
    private final RDD[] inputs;
    private int next = 0;

    public Filling(RDD[] inputs) {
      this.inputs = inputs;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof ReceivedRows || node instanceof ReceivedColumns;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return isDefinedAt(node) ? hole((SparkPlan) node, inputs[next++], ((RDDScanExec) node).name()) : otherwise.apply(node);
    }
  }
}
