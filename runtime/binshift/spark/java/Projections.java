package dev.binshift;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Conversions to unsafe rows, which one task after the other uses: Spark generates the code of each new one, and only its compilation is kept.
 * Raw types: the run-time compiler infers no generics.
 */
public class Projections {
  /** The most schemas; with more, all begin again. */
  private static final int SCHEMAS_MAX = 256;

  private static final ConcurrentHashMap FREE = new ConcurrentHashMap();

  /** One that nobody else uses until the task has completed. */
  public static UnsafeProjection take(StructType schema, TaskContext context) {
    if (FREE.size() > SCHEMAS_MAX) {
      FREE.clear();
    }
    FREE.putIfAbsent(schema, new ConcurrentLinkedQueue());
    ConcurrentLinkedQueue free = (ConcurrentLinkedQueue) FREE.get(schema);
    UnsafeProjection found = (UnsafeProjection) free.poll();
    UnsafeProjection taken = found == null ? UnsafeProjection.create(schema) : found;
    context.addTaskCompletionListener(new Return(free, taken));
    return taken;
  }

  /** Gives a conversion back. */
  public static class Return implements TaskCompletionListener {
    private final ConcurrentLinkedQueue free;
    private final UnsafeProjection taken;

    public Return(ConcurrentLinkedQueue free, UnsafeProjection taken) {
      this.free = free;
      this.taken = taken;
    }

    public void onTaskCompletion(TaskContext context) {
      free.add(taken);
    }
  }
}
