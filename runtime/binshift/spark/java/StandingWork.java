package dev.binshift;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.OutputStream;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.Partition;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import scala.Product2;

/**
 * What a standing task does for an order. There are two: "map" computes partitions of an exchange's input and keeps their rows for the tasks
 * that they belong to; "reduce" reads the rows of this task from the others, computes what is done with them in the JVM, and passes the
 * result to S in the Python worker of this same task. Raw types: the run-time compiler infers no generics.
 */
public class StandingWork {
  private static final int BATCH_ROWS = 65536;

  private final TaskContextImpl task;
  private final StandingBlocks blocks;
  private final DataInputStream fromPython;
  private final DataOutputStream toPython;
  private final StandingCode code = new StandingCode();

  public StandingWork(TaskContextImpl task, StandingBlocks blocks, DataInputStream fromPython, DataOutputStream toPython) {
    this.task = task;
    this.blocks = blocks;
    this.fromPython = fromPython;
    this.toPython = toPython;
  }

  /** The plan of an order, which may have come with an earlier one. */
  private Object[] kept(Object[] order) {
    Object[] given = (Object[]) order[1];
    Object[] found = given[1] == null ? (Object[]) code.get(given[0]) : StandingContext.kept(task, (byte[]) given[1]);
    if (found == null) {
      throw new IllegalStateException("plan " + given[0] + " has not been sent");
    }
    code.put(given[0], found);
    return found;
  }

  /**
   * order: the plan, whether older blocks are still needed, the RDDs of the inputs, the partitions with what they read (see StandingReads), the
   * number of destinations.
   */
  public Object map(Object[] order) throws Exception {
    Object[] kept = kept(order);
    if (!((Boolean) order[2]).booleanValue()) {
      blocks.clear();
    }
    Object[] parts = (Object[]) order[4];
    StandingRows.Outbox[] outboxes = new StandingRows.Outbox[((Integer) order[5]).intValue()];
    for (int i = 0; i < outboxes.length; i++) {
      outboxes[i] = new StandingRows.Outbox(blocks);
    }
    byte[][] metrics = new byte[parts.length][];
    for (int i = 0; i < parts.length; i++) {
      Object[] share = (Object[]) parts[i];
      Partition part = (Partition) StandingContext.read((byte[]) share[0]);
      StandingContext within = new StandingContext(task, part.index(), new StandingReads.Inputs((Object[]) order[3], share));
      try {
        scala.collection.Iterator rows = ((RDD) within.use(kept)).iterator(part, within.context());
        while (rows.hasNext()) {
          Product2 row = (Product2) rows.next();
          outboxes[((Integer) row._1()).intValue()].add((UnsafeRow) row._2());
        }
        metrics[i] = within.metrics();
      } finally {
        within.end();
      }
    }
    Object[] names = new Object[outboxes.length];
    for (int i = 0; i < outboxes.length; i++) {
      names[i] = outboxes[i].names();
    }
    return new Object[] {names, metrics};
  }

  /**
   * order: the plan (the RDD behind the exchange, its schema, the time zone, the form of strings), the sources of each exchange, the partition,
   * what S shall do, see StandingAnswer.
   */
  public Object reduce(Object[] order) throws Exception {
    Object[] kept = kept(order);
    int partition = ((Integer) order[3]).intValue();
    StandingContext within = new StandingContext(task, partition, new StandingRows.Inbox((Object[]) order[2]));
    try {
      byte[] specs = (byte[]) order[4];
      toPython.writeInt(specs.length);
      toPython.write(specs);
      StandingAnswer answer = new StandingAnswer(fromPython, blocks, ((Integer) order[5]).intValue());
      answer.start();
      Object[] behind = (Object[]) within.use(kept);
      scala.collection.Iterator rows = ((RDD) behind[0]).iterator(new StandingInput.Part(partition), within.context());
      write(rows, (StructType) behind[1], (String) behind[2], ((Boolean) behind[3]).booleanValue());
      return answer.await();
    } catch (java.io.IOException error) {
      throw new RuntimeException("Python worker exited unexpectedly", error);
    } finally {
      within.end();
    }
  }

  private void write(scala.collection.Iterator rows, StructType schema, String zone, boolean large) throws Exception {
    ArrowWriter arrow = ArrowWriter.create(schema, zone, true, large);
    try {
      ArrowStreamWriter writer = new ArrowStreamWriter(arrow.root(), null, (OutputStream) toPython);
      writer.start();
      int held = 0;
      while (rows.hasNext()) {
        arrow.write((InternalRow) rows.next());
        if (++held == BATCH_ROWS) {
          arrow.finish();
          writer.writeBatch();
          arrow.reset();
          held = 0;
        }
      }
      if (held > 0) {
        arrow.finish();
        writer.writeBatch();
      }
      writer.end();
      toPython.flush();
    } finally {
      arrow.root().close();
    }
  }
}
