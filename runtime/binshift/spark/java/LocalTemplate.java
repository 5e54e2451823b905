package dev.binshift;

import java.util.ArrayList;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;

/**
 * A template of projections and filters over one hole: of rows that the driver has, it computes the result by itself. Spark would plan the
 * template for each epoch, and compute the rows while it does so. Raw types: the run-time compiler infers no generics.
 */
public class LocalTemplate {
  /** By template, null where Spark has to plan it. */
  private static final Map KNOWN = new WeakHashMap();

  private final ArrayList steps = new ArrayList();
  private boolean projects = false;

  private LocalTemplate() {}

  /** What computes the template's rows of those in the place of its one hole; null where Spark has to plan it. */
  public static synchronized LocalRows rows(SparkSession session, Dataset template, Dataset hole) {
    if (!KNOWN.containsKey(template)) {
      KNOWN.put(template, of(session, template, hole));
    }
    return (LocalRows) KNOWN.get(template);
  }

  private static LocalRows of(SparkSession session, Dataset template, Dataset hole) {
    LogicalPlan analyzed = template.queryExecution().analyzed();
    if (PlannedTemplate.dependsOnEpoch(analyzed) || !analyzed.deterministic()) {
      return null;
    }
    LocalTemplate made = new LocalTemplate();
    LogicalPlan plan = PlanTemplate.frame(session, analyzed).queryExecution().optimizedPlan();
    if (!made.add(plan, ((LogicalRDD) hole.queryExecution().analyzed()).rdd())) {
      return null;
    }
    if (!made.projects) {
      made.steps.add(UnsafeProjection.create(template.schema()));
    }
    return new LocalRows(analyzed.output(), made.steps);
  }

  private boolean add(LogicalPlan plan, Object hole) {
    if (plan instanceof LogicalRDD) {
      return ((LogicalRDD) plan).rdd() == hole;
    }
    if (plan instanceof Project && add(((Project) plan).child(), hole)) {
      projects = true;
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
}
