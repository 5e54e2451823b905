package dev.binshift;

import java.util.ArrayList;
import java.util.Arrays;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec;
import org.apache.spark.sql.types.StructType;

/**
 * What fills the holes of a template in one epoch: the RDDs that tasks get with an order. A hole has one, or those of the scans of a batch
 * whose plan tasks keep. Raw types: the run-time compiler infers no generics.
 */
public class StandingFilling {
  /** The RDDs of all holes, and their columns. */
  public final RDD[] inputs;
  private final StructType[] schemas;

  /** By hole: the number of its first input; the kept plan of its batch, or null; whether it is read at all. */
  private final int[] first;
  private final BatchPlan[] plans;
  private final boolean[] read;

  private final ArrayList watermarks = new ArrayList();

  /** rows: by hole; null for one that is not read. */
  public StandingFilling(RDD[] rows, StructType[] columns) {
    ArrayList found = new ArrayList();
    ArrayList types = new ArrayList();
    first = new int[rows.length];
    plans = new BatchPlan[rows.length];
    read = new boolean[rows.length];
    for (int i = 0; i < rows.length; i++) {
      first[i] = found.size();
      read[i] = rows[i] != null;
      BatchPlan.Cut cut = rows[i] instanceof BatchRows ? ((BatchRows) rows[i]).cut() : null;
      plans[i] = cut == null ? null : cut.kept();
      if (plans[i] != null) {
        watermarks.addAll(cut.watermarks);
        for (int j = 0; j < cut.scans.size(); j++) {
          SparkPlan scan = (SparkPlan) cut.scans.get(j);
          scan.resetMetrics(); // an earlier run of the epoch has counted the same rows
          found.add(scan.supportsColumnar() ? scan.executeColumnar() : scan.execute());
          types.add(scan.schema());
        }
      } else if (read[i]) {
        found.add(rows[i]);
        types.add(columns[i]);
      }
    }
    inputs = (RDD[]) found.toArray(new RDD[found.size()]);
    schemas = (StructType[]) types.toArray(new StructType[types.size()]);
  }

  /** Whether an input needs a job with a shuffle. */
  public boolean shuffles() {
    boolean any = false;
    for (int i = 0; i < inputs.length; i++) {
      any |= StandingReads.shuffles(inputs[i]);
    }
    return any;
  }

  /** Equal for epochs whose tasks can keep the same RDDs. */
  public String shape() {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < plans.length; i++) {
      text.append(plans[i] == null ? "-" : plans[i].number.toString()).append(read[i] ? ' ' : '0');
    }
    int[] parts = new int[inputs.length];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = inputs[i].partitions().length;
    }
    return text + Arrays.toString(parts);
  }

  /** By hole, its rows of the inputs of any epoch of this shape; the watermarks of kept plans are added to the list. */
  public RDD[] over(SparkContext context, ArrayList kept) {
    RDD[] found = new RDD[plans.length];
    for (int i = 0; i < found.length; i++) {
      int end = i + 1 < found.length ? first[i + 1] : inputs.length;
      RDD[] own = new RDD[end - first[i]];
      for (int j = 0; j < own.length; j++) {
        int at = first[i] + j;
        own[j] = new StandingInput(context, at, schemas[at], inputs[at].partitions().length);
      }
      found[i] = plans[i] != null ? plans[i].rows(own, kept) : own.length == 1 ? own[0] : null;
    }
    return found;
  }

  /** The inputs, for tasks. */
  public byte[][] bytes() {
    byte[][] found = new byte[inputs.length][];
    for (int i = 0; i < found.length; i++) {
      found[i] = StandingContext.bytes(inputs[i]);
    }
    return found;
  }

  /** Before the rows are read: the watermarks of kept plans have seen none. */
  public static void begin(ArrayList kept) {
    for (int i = 0; i < kept.size(); i++) {
      ((EventTimeWatermarkExec) kept.get(i)).eventTimeStats().reset();
    }
  }

  /** After that: what they have seen is what those of the batch's own plan have seen, of which Spark takes it. */
  public void end(ArrayList kept) {
    for (int i = 0; i < kept.size(); i++) {
      ((EventTimeWatermarkExec) watermarks.get(i)).eventTimeStats().merge(((EventTimeWatermarkExec) kept.get(i)).eventTimeStats());
    }
  }
}
