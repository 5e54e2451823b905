package dev.binshift;

import java.util.ArrayList;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;

/** What a stage has returned. Rows that have come with the answers are converted when their form is known, and only once. */
public class StandingResult {
  private final SparkSession session;
  private final StructType schema;
  private final ArrayList streams;
  private final Dataset stored;
  private final byte[] answers;

  /** stored: the rows, where some of them stay in blocks; null where streams has all of them: for each task its Arrow streams. */
  public StandingResult(SparkSession session, StructType schema, ArrayList streams, Dataset stored, byte[] answers) {
    this.session = session;
    this.schema = schema;
    this.streams = streams;
    this.stored = stored;
    this.answers = answers;
  }

  /** What S has answered in each task, one after the other, each after its size. */
  public byte[] answers() {
    return answers;
  }

  public Dataset frame() throws Exception {
    return stored != null ? stored : new LocalRows(schema).frame(session, streams);
  }

  /** The template's frame with the rows in the place of its one hole; null where Spark has to plan it. */
  public Dataset filled(Dataset template, Dataset hole) throws Exception {
    LocalRows rows = stored != null ? null : LocalTemplate.rows(session, template, hole);
    return rows == null ? null : rows.frame(session, streams);
  }
}
