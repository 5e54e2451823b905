package dev.binshift;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CloseableIterator;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/** Rows of Arrow streams that the driver has, after projections and filters, as a frame that is read without a job. */
public class LocalRows {
  /** Rows share arrays of this size: each of its own would be another object. */
  private static final int SHARED_BYTES = 1 << 16;

  /** The columns of the rows. */
  private final Seq output;

  /** Projections and predicates, in the order in which rows pass them; at least one projection. */
  private final ArrayList steps;

  private byte[] shared = new byte[0];
  private int used = 0;

  public LocalRows(Seq output, ArrayList steps) {
    this.output = output;
    this.steps = steps;
  }

  /** The rows as they are. */
  public LocalRows(StructType schema) {
    this(DataTypeUtils.toAttributes(schema), new ArrayList());
    steps.add(UnsafeProjection.create(schema));
  }

  /** The frame; streams: for each task its Arrow streams. */
  public synchronized Dataset frame(SparkSession session, ArrayList streams) throws Exception {
    ListBuffer rows = new ListBuffer();
    for (int i = 0; i < streams.size(); i++) {
      Object[] found = (Object[]) streams.get(i);
      for (int j = 0; j < found.length; j++) {
        add(rows, (byte[]) found[j]);
      }
    }
    shared = new byte[0];
    used = 0;
    return PlanTemplate.frame(session, new LocalRelation(output, rows.toList(), false, Option.empty()));
  }

  private void add(ListBuffer rows, byte[] stream) throws Exception {
    CloseableIterator read = (CloseableIterator) ((Tuple2) ArrowConverters$.MODULE$.fromIPCStream(stream))._1();
    try {
      while (read.hasNext()) {
        UnsafeRow row = passed((InternalRow) read.next());
        if (row != null) {
          rows.addOne(kept(row));
        }
      }
    } finally {
      read.close();
    }
  }

  private UnsafeRow passed(InternalRow row) {
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
    return (UnsafeRow) found;
  }

  /** A copy of a row whose memory the next one gets. */
  private UnsafeRow kept(UnsafeRow row) {
    int size = row.getSizeInBytes();
    if (used + size > shared.length) {
      shared = new byte[Math.max(SHARED_BYTES, size)];
      used = 0;
    }
    Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(), shared, Platform.BYTE_ARRAY_OFFSET + used, size);
    UnsafeRow copy = new UnsafeRow(row.numFields());
    copy.pointTo(shared, Platform.BYTE_ARRAY_OFFSET + used, size);
    used += size;
    return copy;
  }
}
