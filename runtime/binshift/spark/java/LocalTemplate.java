package dev.binshift;

import java.util.ArrayList;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * A template of projections and filters over one hole: of rows that the driver has, it computes the result by itself. Spark would plan the
 * template for each epoch, and compute the rows while it does so. Raw types: the run-time compiler infers no generics.
 */
public class LocalTemplate {
  /** By template, null where Spark has to plan it. */
  private static final Map KNOWN = new WeakHashMap();

  /** Projections and predicates, in the order in which rows pass them. */
  private final ArrayList steps = new ArrayList();

  private LocalTemplate() {}

  /** The template's frame over the rows of a local frame in the place of its one hole; null where Spark has to plan it. */
  public static synchronized Dataset filled(SparkSession session, Dataset template, Dataset hole, Dataset frame) {
    LogicalPlan given = frame.queryExecution().analyzed();
    if (!(given instanceof LocalRelation)) {
      return null;
    }
    if (!KNOWN.containsKey(template)) {
      KNOWN.put(template, of(session, template, hole));
    }
    LocalTemplate found = (LocalTemplate) KNOWN.get(template);
    if (found == null) {
      return null;
    }
    ListBuffer rows = new ListBuffer();
    scala.collection.Iterator from = ((LocalRelation) given).data().iterator();
    while (from.hasNext()) {
      InternalRow row = found.row((InternalRow) from.next());
      if (row != null) {
        rows.addOne(row.copy());
      }
    }
    Seq output = template.queryExecution().analyzed().output();
    return PlanTemplate.frame(session, new LocalRelation(output, rows.toList(), false, Option.empty()));
  }

  private static LocalTemplate of(SparkSession session, Dataset template, Dataset hole) {
    LogicalPlan analyzed = template.queryExecution().analyzed();
    if (PlannedTemplate.dependsOnEpoch(analyzed) || !analyzed.deterministic()) {
      return null;
    }
    LocalTemplate made = new LocalTemplate();
    LogicalPlan plan = PlanTemplate.frame(session, analyzed).queryExecution().optimizedPlan();
    return made.add(plan, ((LogicalRDD) hole.queryExecution().analyzed()).rdd()) ? made : null;
  }

  private boolean add(LogicalPlan plan, Object hole) {
    if (plan instanceof LogicalRDD) {
      return ((LogicalRDD) plan).rdd() == hole;
    }
    if (plan instanceof Project && add(((Project) plan).child(), hole)) {
      steps.add(UnsafeProjection$.MODULE$.create(((Project) plan).projectList(), ((Project) plan).child().output()));
      return true;
    }
    if (plan instanceof Filter && add(((Filter) plan).child(), hole)) {
      Expression condition = ((Filter) plan).condition();
      steps.add(Predicate$.MODULE$.create(condition, ((Filter) plan).child().output()));
      return true;
    }
    return false;
  }

  private InternalRow row(InternalRow row) {
    InternalRow found = row;
    for (int i = 0; i < steps.size(); i++) {
      if (steps.get(i) instanceof BasePredicate) {
        if (!((BasePredicate) steps.get(i)).eval(found)) {
          return null;
        }
      } else {
        found = (InternalRow) ((UnsafeProjection) steps.get(i)).apply(found);
      }
    }
    return found;
  }
}
