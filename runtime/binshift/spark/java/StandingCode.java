package dev.binshift;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a standing task has kept of earlier orders, by number: plans as RDDs, which are sent to a task once. The driver keeps the same numbers
 * for each task, in the same order, and so knows which the task has. Raw types: the run-time compiler infers no generics.
 */
public class StandingCode extends LinkedHashMap {
  private static final int KEPT = 32;

  public StandingCode() {
    super(KEPT, 0.75f, true);
  }

  protected boolean removeEldestEntry(Map.Entry eldest) {
    return size() > KEPT;
  }

  /** The driver's side: the number, and the content if the task does not have it. */
  public Object[] given(Long number, byte[] content) {
    return new Object[] {number, put(number, Boolean.TRUE) == null ? content : null};
  }
}
