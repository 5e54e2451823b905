package dev.binshift;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
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
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A streaming source without rows whose offset moves only on request, now or at a given time, so that an idle query
 * runs an epoch when a flip or a timer is due. Spark asks for the offset before each batch and takes the batch's time
 * afterwards: an offset that has moved by the clock belongs to a batch that is not earlier. Offsets are milliseconds,
 * so that they grow across restarts of the driver.
 */
public class NudgeSource implements TableProvider {
  private static final ConcurrentHashMap OFFSETS = new ConcurrentHashMap();
  private static final ConcurrentHashMap REQUIRED = new ConcurrentHashMap();
  private static final ConcurrentHashMap DUE = new ConcurrentHashMap();
  private static final Set MADE = ConcurrentHashMap.newKeySet();
  /** How often a waiting thread checks whether the query has failed before it made its sources. */
  private static final long CHECK_MS = 100L;

  /** Wait until the query of that name has made this source, which is its last one, or has ended. */
  public static synchronized void await(String name, StreamingQuery query) throws InterruptedException {
    while (!MADE.contains(name) && query.isActive()) {
      NudgeSource.class.wait(CHECK_MS);
    }
  }

  private static synchronized void made(String name) {
    MADE.add(name);
    NudgeSource.class.notifyAll();
  }

  public static synchronized long wakeUp(String name, boolean requireFinalEpoch) {
    Long before = (Long) OFFSETS.get(name);
    long after = Math.max(before == null ? 0L : before.longValue() + 1L, System.currentTimeMillis());
    OFFSETS.put(name, Long.valueOf(after));
    if (requireFinalEpoch) {
      REQUIRED.put(name, Long.valueOf(after));
    }
    return after;
  }

  /** Move the offset once when the clock reaches that time, in milliseconds since 1970; never, if it is negative. */
  public static synchronized void wakeUpAt(String name, long timeMs) {
    if (timeMs < 0) {
      DUE.remove(name);
    } else {
      DUE.put(name, Long.valueOf(timeMs));
    }
  }

  private static synchronized void wakeUpIfDue(String name) {
    Long due = (Long) DUE.get(name);
    if (due != null && System.currentTimeMillis() >= due.longValue()) {
      DUE.remove(name);
      wakeUp(name, false);
    }
  }

  /** The query of that name has ended. */
  public static synchronized void forget(String name) {
    DUE.remove(name);
    MADE.remove(name);
    OFFSETS.remove(name);
    REQUIRED.remove(name);
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType().add("nudge", DataTypes.BooleanType);
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new NudgeTable(schema);
  }

  public static class NudgeTable implements Table, SupportsRead {
    private final StructType schema;

    public NudgeTable(StructType schema) {
      this.schema = schema;
    }

    public String name() {
      return "binshift_nudge";
    }

    public StructType schema() {
      return schema;
    }

    public Set capabilities() {
      return Collections.singleton(TableCapability.MICRO_BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new NudgeScan(schema, options.get("name"));
    }
  }

  public static class NudgeScan implements ScanBuilder, Scan {
    private final StructType schema;
    private final String name;

    public NudgeScan(StructType schema, String name) {
      this.schema = schema;
      this.name = name;
    }

    public Scan build() {
      return this;
    }

    public StructType readSchema() {
      return schema;
    }

    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      made(name);
      return new NudgeStream(name);
    }
  }

  /** One source that cannot take part in AvailableNow would have Spark run all there is of every source as one batch. */
  public static class NudgeStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    private final String name;
    private boolean ends;
    private Long last;

    public NudgeStream(String name) {
      this.name = name;
    }

    public synchronized void prepareForTriggerAvailableNow() {
      wakeUpIfDue(name);
      last = (Long) OFFSETS.get(name);
      ends = true;
    }

    public synchronized Offset latestOffset(Offset start, ReadLimit limit) {
      if (!ends) {
        wakeUpIfDue(name);
      }
      Long offset = (Long) (ends ? REQUIRED : OFFSETS).get(name);
      if (ends && last != null && (offset == null || offset.longValue() < last.longValue())) {
        offset = last;
      }
      return offset == null ? null : new NudgeOffset(offset.longValue());
    }

    public Offset initialOffset() {
      return new NudgeOffset(0L);
    }

    public Offset latestOffset() {
      return latestOffset(null, null);
    }

    public Offset deserializeOffset(String json) {
      return new NudgeOffset(Long.parseLong(json));
    }

    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return new InputPartition[0];
    }

    public PartitionReaderFactory createReaderFactory() {
      return new NoReaders();
    }

    public void commit(Offset end) {}

    public void stop() {}
  }

  public static class NoReaders implements PartitionReaderFactory {
    public PartitionReader createReader(InputPartition partition) {
      throw new UnsupportedOperationException("the nudge source has no partitions to read");
    }
  }

  public static class NudgeOffset extends Offset {
    private final long value;

    public NudgeOffset(long value) {
      this.value = value;
    }

    public String json() {
      return Long.toString(value);
    }
  }
}
