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

  /** As many owners as bins. */
  public static StandingRoute each(int bins) {
    ByteBuffer places = ByteBuffer.allocate(4 * bins);
    for (int i = 0; i < bins; i++) {
      places.putInt(i);
    }
    return new StandingRoute(places.array());
  }

  /** places: of each bin the position of its owner among those of the epoch, in four bytes, the high one first. */
  public StandingRoute(byte[] places) {
    int[] found = new int[places.length / 4];
    ByteBuffer.wrap(places).asIntBuffer().get(found);
    bins = found.length;
    content = StandingContext.bytes(found);
  }
}
