package dev.binshift;

import java.util.ArrayList;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/** The rows of an exchange between standing tasks, in blocks for their destinations. Raw types: the run-time compiler infers no generics. */
public class StandingRows {
  private static final int BLOCK_BYTES = 4 << 20;

  /** A row is preceded by its size, in eight bytes, so that rows stay aligned. */
  private static final int HEADER = 8;

  /** Collects rows for one destination. */
  public static class Outbox {
    private final StandingBlocks blocks;
    private final ArrayList names = new ArrayList();
    private byte[] data = new byte[1 << 14];
    private int size = 0;

    public Outbox(StandingBlocks blocks) {
      this.blocks = blocks;
    }

    public void add(UnsafeRow row) {
      int bytes = row.getSizeInBytes();
      int needed = size + HEADER + bytes;
      if (needed > data.length) {
        data = java.util.Arrays.copyOf(data, Math.max(needed, 2 * data.length));
      }
      Platform.putLong(data, Platform.BYTE_ARRAY_OFFSET + size, bytes);
      Platform.copyMemory(
          row.getBaseObject(), row.getBaseOffset(), data, Platform.BYTE_ARRAY_OFFSET + size + HEADER, bytes);
      size = needed;
      if (size >= BLOCK_BYTES) {
        flush();
      }
    }

    private void flush() {
      names.add(blocks.put(data, size));
      size = 0;
    }

    public String[] names() {
      if (size > 0) {
        flush();
      }
      return (String[]) names.toArray(new String[names.size()]);
    }
  }

  /** The rows that other tasks have for this one: for each exchange host, port, executor and name of each block, in turn. */
  public static class Inbox implements StandingInput.Source {
    private final Object[] exchanges;

    public Inbox(Object[] exchanges) {
      this.exchanges = exchanges;
    }

    public scala.collection.Iterator rows(int number, int fields, int partition, TaskContext context) {
      return new Rows((Object[]) exchanges[number], fields);
    }
  }

  /** The rows of blocks, which are read one after the other; a row is valid until the next. */
  public static class Rows extends scala.collection.AbstractIterator {
    private final Object[] sources;
    private final UnsafeRow row;
    private byte[] data = new byte[0];
    private int next = 0;
    private int at = 0;

    public Rows(Object[] sources, int fields) {
      this.sources = sources;
      this.row = new UnsafeRow(fields);
    }

    public boolean hasNext() {
      while (at >= data.length && next < sources.length) {
        data = StandingBlocks.read(sources, next);
        next += 4;
        at = 0;
      }
      return at < data.length;
    }

    public Object next() {
      int bytes = (int) Platform.getLong(data, Platform.BYTE_ARRAY_OFFSET + at);
      row.pointTo(data, Platform.BYTE_ARRAY_OFFSET + at + HEADER, bytes);
      at += HEADER + bytes;
      return row;
    }
  }
}
