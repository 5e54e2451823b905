package dev.binshift;

import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContextImpl;

/**
 * What a standing task has kept of earlier orders, by number: plans as RDDs, which are sent to a task once. The driver keeps the same numbers
 * for each task, in the same order, and so knows which the task has. Raw types: the run-time compiler infers no generics.
 */
public class StandingCode extends LinkedHashMap {
  private static final int KEPT = 32;
  private static final AtomicLong NUMBERS = new AtomicLong();

  public StandingCode() {
    super(KEPT, 0.75f, true);
  }

  /** For something that tasks keep: none else has it. */
  public static Long number() {
    return Long.valueOf(NUMBERS.incrementAndGet());
  }

  protected boolean removeEldestEntry(Map.Entry eldest) {
    return size() > KEPT;
  }

  /** The driver's side: the number, and the content if the task does not have it. */
  public Object[] given(Long number, byte[] content) {
    return new Object[] {number, put(number, Boolean.TRUE) == null ? content : null};
  }

  /** The task's side: the plan of an order, which may have come with an earlier one. */
  public Plan of(Object[] given) {
    Plan found = given[1] == null ? (Plan) get(given[0]) : new Plan((byte[]) given[1]);
    if (found == null) {
      throw new IllegalStateException("plan " + given[0] + " has not been sent");
    }
    put(given[0], found);
    return found;
  }

  /** A plan, read once for each thread that computes it at a time. */
  public static class Plan {
    private final byte[] content;
    private final ArrayDeque free = new ArrayDeque();

    public Plan(byte[] content) {
      this.content = content;
    }

    /** Something with its accumulators, as StandingContext has it; give it back. */
    public Object[] take(TaskContextImpl task) {
      synchronized (free) {
        if (!free.isEmpty()) {
          return (Object[]) free.pop();
        }
      }
      return StandingContext.kept(task, content);
    }

    public void giveBack(Object[] kept) {
      synchronized (free) {
        free.push(kept);
      }
    }
  }
}
