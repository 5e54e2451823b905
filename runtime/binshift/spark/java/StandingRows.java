package dev.binshift;

import java.util.ArrayList;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** An exchange between standing tasks: rows for one destination as blocks, and the rows of blocks as an RDD. */
public class StandingRows {
  /** The local property of a task that has the key of its inboxes. */
  public static final String INBOX = "binshift.standing.inbox";

  /** By key, for each exchange the blocks of this task: host, port, executor and name, in turn. */
  public static final ConcurrentHashMap INBOXES = new ConcurrentHashMap();

  private static final int BLOCK_BYTES = 4 << 20;

  /** A row is preceded by its size, in eight bytes, so that rows stay aligned. */
  private static final int HEADER = 8;

  /** A partition with a number and nothing else. */
  public static class Part implements Partition {
    private final int index;

    public Part(int index) {
      this.index = index;
    }

    public int index() {
      return index;
    }

    public boolean org$apache$spark$Partition$$super$equals(Object other) {
      return this == other;
    }

    public static Partition[] several(int count) {
      Partition[] made = new Partition[count];
      for (int i = 0; i < count; i++) {
        made[i] = new Part(i);
      }
      return made;
    }
  }

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

  /** The rows that other tasks have for this one. */
  public static class Inbox extends RDD {
    private final int exchange;
    private final int fields;
    private final int parts;

    public Inbox(SparkContext context, int exchange, int fields, int parts) {
      super(context, (Seq) (Object) Nil$.MODULE$, ClassTag$.MODULE$.Any());
      this.exchange = exchange;
      this.fields = fields;
      this.parts = parts;
    }

    public Partition[] getPartitions() {
      return Part.several(parts);
    }

    public scala.collection.Iterator compute(Partition partition, TaskContext context) {
      Object[][] sources = (Object[][]) INBOXES.get(context.getLocalProperty(INBOX));
      return new Rows(sources[exchange], fields);
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
