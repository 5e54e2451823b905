package dev.binshift;

import java.nio.ByteBuffer;

/**
 * The owner of each bin in an epoch. Rows are exchanged by bin, and a task finds the owner here: with a new route, no plan is made and none
 * is compiled. A task keeps it like a plan; see StandingCode. Raw types: the run-time compiler infers no generics.
 */
public class StandingRoute {
  public final Long number = StandingCode.number();
  public final int bins;
  public final byte[] content;

  /** places: of each bin the position of its owner among those of the epoch, in four bytes, the high one first. */
  public StandingRoute(byte[] places) {
    int[] found = new int[places.length / 4];
    ByteBuffer.wrap(places).asIntBuffer().get(found);
    bins = found.length;
    content = StandingContext.bytes(found);
  }
}
