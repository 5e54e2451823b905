package dev.binshift;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** The rows of an exchange between standing tasks, in blocks for their destinations. Raw types: the run-time compiler infers no generics. */
public class StandingRows {
  private static final int BLOCK_BYTES = 4 << 20;

  /** Blocks that are read at a time, and so the memory that they take. */
  private static final int AHEAD_MAX = 4;

  /** How long a block is waited for before the driver is asked whether its executor is there. */
  private static final long PATIENCE_MILLIS = 200;

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
    private final Rows[] exchanges;

    public Inbox(Object[] exchanges) {
      this.exchanges = new Rows[exchanges.length];
      for (int i = 0; i < exchanges.length; i++) {
        this.exchanges[i] = new Rows((Object[]) exchanges[i]);
      }
    }

    /** Wait for the first blocks, which are all of them in a short epoch: if an executor is lost, the order has not begun. */
    public void await() {
      for (int i = 0; i < exchanges.length; i++) {
        exchanges[i].await();
      }
    }

    public scala.collection.Iterator rows(int number, StructType schema, int partition, TaskContext context) {
      return exchanges[number].of(schema.length());
    }
  }

  /** A block that is read beside the task. */
  public static class Reading implements Callable {
    private final Object[] sources;
    private final int at;
    private final Future found;

    public Reading(Object[] sources, int at) {
      this.sources = sources;
      this.at = at;
      this.found = StandingEnv.submit(this);
    }

    public Object call() {
      return StandingBlocks.read(sources, at);
    }

    /** The block. If its executor is lost, Spark's transport tries again after seconds, several times: nobody waits for that. */
    public byte[] block() {
      while (true) {
        try {
          return (byte[]) found.get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException error) {
          StandingBlocks.checkAlive((String) sources[at + 2]);
        } catch (InterruptedException error) {
          throw new IllegalStateException("the task is interrupted", error);
        } catch (ExecutionException error) {
          throw error.getCause() instanceof RuntimeException ? (RuntimeException) error.getCause() : new RuntimeException(error.getCause());
        }
      }
    }
  }

  /** The rows of blocks, some of which are read ahead; a row is valid until the next. */
  public static class Rows extends scala.collection.AbstractIterator {
    private final Object[] sources;
    private UnsafeRow row;
    private final ArrayDeque ahead = new ArrayDeque();
    private byte[] data = new byte[0];
    private int next = 0;
    private int at = 0;

    public Rows(Object[] sources) {
      this.sources = sources;
    }

    public Rows of(int fields) {
      row = new UnsafeRow(fields);
      return this;
    }

    public void await() {
      begin();
      for (java.util.Iterator each = ahead.iterator(); each.hasNext(); ) {
        ((Reading) each.next()).block();
      }
    }

    public boolean hasNext() {
      while (at >= data.length && (next < sources.length || !ahead.isEmpty())) {
        data = block();
        at = 0;
      }
      return at < data.length;
    }

    private void begin() {
      while (next < sources.length && ahead.size() < AHEAD_MAX) {
        ahead.add(new Reading(sources, next));
        next += 4;
      }
    }

    private byte[] block() {
      begin();
      return ((Reading) ahead.poll()).block();
    }

    public Object next() {
      int bytes = (int) Platform.getLong(data, Platform.BYTE_ARRAY_OFFSET + at);
      row.pointTo(data, Platform.BYTE_ARRAY_OFFSET + at + HEADER, bytes);
      at += HEADER + bytes;
      return row;
    }
  }
}
