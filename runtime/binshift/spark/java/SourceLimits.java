package dev.binshift;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import scala.collection.immutable.Seq;

/**
 * Bounds how much of each source the next batches of a query take, and keeps what its batches took. Spark asks a source for its offset with a
 * limit that it reads again in each trigger; this class replaces the limit. Files are bounded in bytes, by the rows that a byte of them had.
 */
public class SourceLimits extends StreamingQueryListener {
  private static final int REPORTS_MAX = 256;
  private static final double BYTES_PER_ROW = 8.0;
  private static final String KAFKA = "KafkaMicroBatchStream";

  private final SparkSession session;
  private final String query;
  private final long first;
  private final List reports = new ArrayList();
  private final Map given = new HashMap();
  private final Map bytesRead = new HashMap();
  private final Map bytesPerRow = new HashMap();
  private volatile boolean bounded;
  private volatile MicroBatchExecution stream;

  /** Of the query with that id, which is about to start; first: rows of its first batch, from each source; 0: no bound. */
  public SourceLimits(SparkSession session, String query, long first) {
    this.session = session;
    this.query = query;
    this.first = first;
    session.streams().addListener(this);
  }

  /** The execution of the query with that id. */
  public static MicroBatchExecution stream(SparkSession session, String query) {
    return (MicroBatchExecution) ((StreamingQueryWrapper) session.streams().get(query)).streamingQuery();
  }

  /** The query has ended. Its stream leads to the callback in Python, and that to this object: neither would be collected. */
  public synchronized void close() {
    session.streams().removeListener(this);
    stream = null;
    given.clear();
  }

  /**
   * The thread of the stream waits for this. The sources are made here, a moment before Spark would: its first batch, which has the whole
   * backlog, is then bounded, too.
   */
  public void onQueryStarted(StreamingQueryListener.QueryStartedEvent event) {
    if (!event.id().toString().equals(query)) {
      return;
    }
    stream = stream(session, query);
    if (first > 0) {
      SparkSession.setActiveSession(stream.sparkSessionForStream());
      stream.logicalPlan();
      for (int each = 0; each < sources().length(); each++) {
        limit(each, first);
      }
    }
  }

  public synchronized void onQueryProgress(StreamingQueryListener.QueryProgressEvent event) {
    StreamingQueryProgress progress = event.progress();
    if (!progress.id().toString().equals(query) || !progress.durationMs().containsKey("addBatch")) {
      return;
    }
    StringBuilder line = new StringBuilder();
    line.append(progress.batchId()).append('\t').append(progress.timestamp());
    line.append('\t').append(progress.durationMs().get("triggerExecution"));
    SourceProgress[] sources = progress.sources();
    long[] bytes = (long[]) bytesRead.remove(Long.valueOf(progress.batchId()));
    for (int each = 0; each < sources.length; each++) {
      long rows = sources[each].numInputRows();
      line.append('\t').append(rows).append(' ').append(behind(sources[each]));
      if (bytes != null && rows > 0 && bytes[each] > 0) {
        bytesPerRow.put(Integer.valueOf(each), Double.valueOf((double) bytes[each] / rows));
      }
    }
    if (reports.size() >= REPORTS_MAX) {
      reports.remove(0);
    }
    reports.add(line.toString());
  }

  public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent event) {}

  /** Rows that the source has beyond those taken: Kafka reports their mean over the partitions of its offset; -1: not known. */
  private static long behind(SourceProgress source) {
    Object mean = source.metrics() == null ? null : source.metrics().get("avgOffsetsBehindLatest");
    if (mean == null || source.endOffset() == null) {
      return -1L;
    }
    // Such as {"a":{"0":7,"1":9},"b":{"0":5}}: a colon after each topic and each partition, and a brace for each topic and for all.
    int partitions = count(source.endOffset(), ':') - (count(source.endOffset(), '{') - 1);
    return Math.round(Double.parseDouble((String) mean) * Math.max(1, partitions));
  }

  private static int count(String text, char sign) {
    int found = 0;
    for (int each = 0; each < text.length(); each++) {
      found += text.charAt(each) == sign ? 1 : 0;
    }
    return found;
  }

  /** The reports of batches that have ended since the last call, and which sources can be bounded. */
  public synchronized String report(long batch) {
    if (bounded) { // only bounds need it
      bytesRead.put(Long.valueOf(batch), bytes());
      if (bytesRead.size() > REPORTS_MAX) {
        bytesRead.clear();
      }
    }
    StringBuilder text = new StringBuilder();
    for (int each = 0; each < sources().length(); each++) {
      text.append(limited(each, 1L) == null ? '0' : '1');
    }
    for (int each = 0; each < reports.size(); each++) {
      text.append('\n').append((String) reports.get(each));
    }
    reports.clear();
    return text.toString();
  }

  /** The next batches take about that many rows of a source, as far as it can be bounded. */
  public synchronized void limit(int source, long rows) {
    ReadLimit limit = limited(source, rows);
    if (limit != null) {
      bounded = true;
      SparkDataStream from = (SparkDataStream) sources().apply(source);
      scala.collection.immutable.Map limits = stream.uniqueSources();
      stream.uniqueSources_$eq((scala.collection.immutable.Map) limits.updated(from, limit));
    }
  }

  /** The next batches take as much as the program's own limits allow. */
  public synchronized void release() {
    bounded = false;
    for (int each = 0; each < sources().length(); each++) {
      SparkDataStream from = (SparkDataStream) sources().apply(each);
      if (given.containsKey(from)) {
        scala.collection.immutable.Map limits = stream.uniqueSources();
        stream.uniqueSources_$eq((scala.collection.immutable.Map) limits.updated(from, (ReadLimit) given.get(from)));
      }
    }
  }

  /** The smaller one of a bound and the program's own; null: this source cannot be bounded so. */
  private ReadLimit limited(int source, long rows) {
    SparkDataStream from = (SparkDataStream) sources().apply(source);
    if (!given.containsKey(from)) {
      given.put(from, stream.uniqueSources().apply(from));
    }
    ReadLimit own = (ReadLimit) given.get(from);
    if (own instanceof ReadMaxRows) {
      return ReadLimit.maxRows(Math.min(rows, ((ReadMaxRows) own).maxRows()));
    }
    if (own instanceof ReadAllAvailable && from.getClass().getName().endsWith(KAFKA)) {
      return ReadLimit.maxRows(rows);
    }
    if (from instanceof FileStreamSource && (own instanceof ReadAllAvailable || own instanceof ReadMaxBytes)) {
      Double known = (Double) bytesPerRow.get(Integer.valueOf(source));
      double bytes = Math.max(1.0, rows * (known == null ? BYTES_PER_ROW : known.doubleValue()));
      long most = own instanceof ReadMaxBytes ? ((ReadMaxBytes) own).maxBytes() : Long.MAX_VALUE;
      return ReadLimit.maxBytes(Math.min((long) Math.min(bytes, 9e18), most));
    }
    return null;
  }

  private Seq sources() {
    return (Seq) stream.sources().distinct();
  }

  /** Of the files of the running batch, by source. */
  private long[] bytes() {
    long[] found = new long[sources().length()];
    Seq leaves = stream.lastExecution().logical().collectLeaves();
    for (int each = 0; each < leaves.length(); each++) {
      LogicalPlan leaf = (LogicalPlan) leaves.apply(each);
      if (leaf instanceof LogicalRelation && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation) {
        int source = ((LogicalRelation) leaf).stream().isEmpty() ? -1 : sources().indexOf(((LogicalRelation) leaf).stream().get());
        if (source >= 0) {
          found[source] += ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location().sizeInBytes();
        }
      }
    }
    return found;
  }
}
