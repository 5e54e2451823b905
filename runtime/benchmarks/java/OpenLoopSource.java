package dev.binshift.bench;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Rows on a fixed schedule, whether or not anyone keeps up: the first "prefill" rows are due at once, then "rate" rows a
 * second. The offset is the number of rows due; row i is (i, when it was due in ms since 1970). With "batch" set, each
 * batch has exactly so many rows instead, as soon as it is requested. The clock is part of the offset, so that a query that
 * stops and starts again finds what was due in between.
 */
public class OpenLoopSource implements TableProvider {
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType().add("value", DataTypes.LongType).add("due_ms", DataTypes.LongType);
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new LoopTable(schema);
  }

  public static class LoopTable implements Table, SupportsRead {
    private final StructType schema;

    public LoopTable(StructType schema) {
      this.schema = schema;
    }

    public String name() {
      return "open_loop";
    }

    public StructType schema() {
      return schema;
    }

    public Set capabilities() {
      return Collections.singleton(TableCapability.MICRO_BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new LoopScan(
          schema,
          options.getLong("prefill", 0L),
          options.getLong("rate", 1000L),
          options.getLong("batch", 0L),
          options.getInt("partitions", 2));
    }
  }

  public static class LoopScan implements ScanBuilder, Scan {
    private final StructType schema;
    private final long prefill;
    private final long rate;
    private final long batch;
    private final int partitions;

    public LoopScan(StructType schema, long prefill, long rate, long batch, int partitions) {
      this.schema = schema;
      this.prefill = prefill;
      this.rate = rate;
      this.batch = batch;
      this.partitions = partitions;
    }

    public Scan build() {
      return this;
    }

    public StructType readSchema() {
      return schema;
    }

    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new LoopStream(prefill, rate, batch, partitions);
    }
  }

  public static class LoopStream implements MicroBatchStream, SupportsAdmissionControl {
    private static final long TICK_MS = 10L;
    private final long prefill;
    private final long rate;
    private final long batch;
    private final int partitions;
    private long startMs = -1L;
    private long asked = 0L;

    public LoopStream(long prefill, long rate, long batch, int partitions) {
      this.prefill = prefill;
      this.rate = rate;
      this.batch = batch;
      this.partitions = partitions;
    }

    public Offset initialOffset() {
      return new LoopOffset(0L, 0L);
    }

    public Offset latestOffset() {
      return latestOffset(initialOffset(), null);
    }

    public Offset latestOffset(Offset start, ReadLimit limit) {
      LoopOffset from = (LoopOffset) start;
      if (startMs < 0L && from.rows > 0L) {
        startMs = from.startMs;
        asked = from.rows;
      }
      long now = System.currentTimeMillis();
      if (startMs < 0L) {
        startMs = now;
        asked = prefill;
        return new LoopOffset(Math.max(prefill, 1L), startMs);
      }
      if (batch > 0L) {
        asked = asked + batch;
        return new LoopOffset(asked, startMs);
      }
      long ticks = (now - startMs) / TICK_MS;
      return new LoopOffset(prefill + ticks * TICK_MS * rate / 1000L, startMs);
    }

    public Offset deserializeOffset(String json) {
      int comma = json.indexOf(',');
      return new LoopOffset(
          Long.parseLong(json.substring(1, comma)),
          Long.parseLong(json.substring(comma + 1, json.length() - 1)));
    }

    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      long first = ((LoopOffset) start).rows;
      long last = ((LoopOffset) end).rows;
      long origin = ((LoopOffset) end).startMs;
      InputPartition[] parts = new InputPartition[partitions];
      for (int i = 0; i < partitions; i++) {
        long from = first + (last - first) * i / partitions;
        long to = first + (last - first) * (i + 1) / partitions;
        parts[i] = new LoopPartition(from, to, prefill, rate, origin);
      }
      return parts;
    }

    public PartitionReaderFactory createReaderFactory() {
      return new LoopReaders();
    }

    public void commit(Offset end) {}

    public void stop() {}

    public String toString() {
      return "OpenLoopSource";
    }
  }

  public static class LoopOffset extends Offset {
    final long rows;
    final long startMs;

    public LoopOffset(long rows, long startMs) {
      this.rows = rows;
      this.startMs = startMs;
    }

    public String json() {
      return "[" + rows + "," + startMs + "]";
    }
  }

  public static class LoopPartition implements InputPartition {
    final long from;
    final long to;
    final long prefill;
    final long rate;
    final long startMs;

    public LoopPartition(long from, long to, long prefill, long rate, long startMs) {
      this.from = from;
      this.to = to;
      this.prefill = prefill;
      this.rate = rate;
      this.startMs = startMs;
    }
  }

  public static class LoopReaders implements PartitionReaderFactory {
    public PartitionReader createReader(InputPartition partition) {
      return new LoopReader((LoopPartition) partition);
    }
  }

  public static class LoopReader implements PartitionReader {
    private final LoopPartition part;
    private long at;

    public LoopReader(LoopPartition part) {
      this.part = part;
      this.at = part.from - 1L;
    }

    public boolean next() {
      at = at + 1L;
      return at < part.to;
    }

    public Object get() {
      long after = Math.max(0L, at - part.prefill);
      Object[] values = new Object[2];
      values[0] = Long.valueOf(at);
      values[1] = Long.valueOf(part.startMs + after * 1000L / part.rate);
      return new GenericInternalRow(values);
    }

    public void close() {}
  }
}
