package dev.binshift;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import scala.Product2;

/**
 * What a standing task does for an order. There are three: "map" computes partitions of an exchange's input and keeps their rows for the tasks
 * that they belong to; "reduce" reads the rows of this task from the others, computes what is done with them in the JVM, and passes the
 * result to S in the Python worker of this same task; "pass" passes a message to the Python worker, whose answer is another one. Raw types: the
 * run-time compiler infers no generics.
 */
public class StandingWork {
  private static final int BATCH_ROWS = 65536;

  /** What is read of the state is kept in memory up to so many bytes, and then in blocks. */
  private static final int READ_KEPT = 16 << 20;

  private final TaskContextImpl task;
  private final StandingBlocks blocks;
  private final DataInputStream fromPython;
  private final DataOutputStream toPython;
  private final StandingCode code = new StandingCode();
  private boolean begun = false;

  public StandingWork(TaskContextImpl task, StandingBlocks blocks, DataInputStream fromPython, DataOutputStream toPython) {
    this.task = task;
    this.blocks = blocks;
    this.fromPython = fromPython;
    this.toPython = toPython;
  }

  /** What an order asks for. */
  public Object done(Object[] order) throws Exception {
    String kind = (String) order[0];
    begun = false;
    return kind.equals("map") ? map(order) : kind.equals("reduce") ? reduce(order) : passed((byte[]) order[1]);
  }

  private Object passed(byte[] message) throws Exception {
    send(message);
    toPython.flush();
    StandingAnswer answer = new StandingAnswer(fromPython, blocks, 0);
    answer.run();
    return ((Object[]) answer.await())[0];
  }

  /** Whether the Python worker has had a part of the newest order. */
  public boolean hasBegun() {
    return begun;
  }

  private void send(byte[] message) throws java.io.IOException {
    begun = true;
    toPython.writeInt(message.length);
    toPython.write(message);
  }

  /**
   * order: the plan, whether older blocks are still needed, the RDDs of the inputs, the partitions with what they read (see StandingReads), the
   * number of destinations, and of each bin its destination (see StandingRoute).
   */
  public Object map(Object[] order) throws Exception {
    StandingCode.Plan plan = code.of((Object[]) order[1]);
    StandingCode.Plan route = code.of((Object[]) order[6]);
    if (!((Boolean) order[2]).booleanValue()) {
      blocks.clear();
    }
    Object[] parts = (Object[]) order[4];
    Lane[] lanes = new Lane[Math.max(1, Math.min(parts.length, lanes()))];
    byte[][] metrics = new byte[parts.length][];
    AtomicInteger next = new AtomicInteger();
    Object[] kept = route.take(task);
    int[] places = (int[]) kept[0];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] = new Lane(task, plan, (Object[]) order[3], parts, next, blocks, ((Integer) order[5]).intValue(), places, metrics);
    }
    run(lanes);
    route.giveBack(kept);
    Object[] names = new Object[((Integer) order[5]).intValue()];
    for (int i = 0; i < names.length; i++) {
      ArrayList found = new ArrayList();
      for (int j = 0; j < lanes.length; j++) {
        found.addAll(Arrays.asList(lanes[j].outboxes[i].names()));
      }
      names[i] = found.toArray(new String[found.size()]);
    }
    return new Object[] {names, metrics};
  }

  /** Task slots of the executor without this task's own and one for work in the background, but no more than it has CPUs. */
  private static int lanes() {
    int cpus = Runtime.getRuntime().availableProcessors();
    return Math.min(cpus, StandingEnv.conf().getInt("spark.executor.cores", cpus) - 2);
  }

  private void run(Lane[] lanes) throws Exception {
    ArrayList running = new ArrayList();
    for (int i = 1; i < lanes.length; i++) {
      running.add(StandingEnv.submit(lanes[i]));
    }
    try {
      lanes[0].call();
      for (int i = 0; i < running.size(); i++) {
        ((Future) running.get(i)).get();
      }
    } catch (java.util.concurrent.ExecutionException error) {
      throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
    } finally {
      TaskContext$.MODULE$.setTaskContext(task);
      for (int i = 0; i < running.size(); i++) {
        ((Future) running.get(i)).cancel(true);
      }
    }
  }

  /** Computes one partition after the other, beside other lanes of the same order. */
  public static class Lane implements Callable {
    public final StandingRows.Outbox[] outboxes;
    private final TaskContextImpl task;
    private final StandingCode.Plan plan;
    private final Object[] inputs;
    private final Object[] parts;
    private final AtomicInteger next;
    private final int[] places;
    private final byte[][] metrics;
    private final ClassLoader loader = Thread.currentThread().getContextClassLoader();

    public Lane(
        TaskContextImpl task, StandingCode.Plan plan, Object[] inputs, Object[] parts, AtomicInteger next, StandingBlocks blocks,
        int destinations, int[] places, byte[][] metrics) {
      this.task = task;
      this.plan = plan;
      this.inputs = inputs;
      this.parts = parts;
      this.next = next;
      this.places = places;
      this.metrics = metrics;
      this.outboxes = new StandingRows.Outbox[destinations];
      for (int i = 0; i < destinations; i++) {
        outboxes[i] = new StandingRows.Outbox(blocks);
      }
    }

    public Object call() throws Exception {
      Thread.currentThread().setContextClassLoader(loader);
      Object[] kept = plan.take(task);
      try {
        for (int i = next.getAndIncrement(); i < parts.length; i = next.getAndIncrement()) {
          metrics[i] = compute((Object[]) parts[i], kept);
        }
      } finally {
        TaskContext$.MODULE$.unset();
      }
      plan.giveBack(kept);
      return null;
    }

    private byte[] compute(Object[] share, Object[] kept) {
      Partition part = (Partition) StandingContext.read((byte[]) share[0]);
      StandingContext within = new StandingContext(task, part.index(), new StandingReads.Inputs(inputs, share));
      try {
        scala.collection.Iterator rows = ((RDD) within.use(kept)).iterator(part, within.context());
        while (rows.hasNext()) {
          Product2 row = (Product2) rows.next();
          outboxes[places[((Integer) row._1()).intValue()]].add((UnsafeRow) row._2());
        }
        return within.metrics();
      } finally {
        within.end();
      }
    }
  }

  /**
   * order: the plan (the RDD behind the exchange, its schema, the time zone, the form of strings), the sources of each exchange, the partition,
   * what S shall do, see StandingAnswer. Where Spark computes something from the state, the plan of that and what reads the state follow.
   */
  public Object reduce(Object[] order) throws Exception {
    int partition = ((Integer) order[3]).intValue();
    int kept = ((Integer) order[5]).intValue();
    StandingRows.Inbox rows = new StandingRows.Inbox((Object[]) order[2]);
    rows.await();
    if (order.length == 6) {
      return passed(order, rows, partition, (byte[]) order[4], blocks, kept);
    }
    StandingBlocks read = new StandingBlocks();
    try {
      Object[] found = (Object[]) passed(order, rows, partition, (byte[]) order[7], read, READ_KEPT);
      return passed((Object[]) order[6], new StandingOutput.Read(found), partition, (byte[]) order[4], blocks, kept);
    } finally {
      read.clear();
    }
  }

  /** The answer of the Python worker to an order, whose rows are those of a plan. */
  private Object passed(
      Object[] planned, StandingInput.Source source, int partition, byte[] specs, StandingBlocks output, int bytes) throws Exception {
    StandingCode.Plan plan = code.of((Object[]) planned[1]);
    Object[] kept = plan.take(task);
    StandingContext within = new StandingContext(task, partition, source);
    try {
      send(specs);
      StandingAnswer answer = new StandingAnswer(fromPython, output, bytes);
      answer.start();
      Object[] behind = (Object[]) within.use(kept);
      scala.collection.Iterator rows = ((RDD) behind[0]).iterator(new StandingInput.Part(partition), within.context());
      write(rows, (StructType) behind[1], (String) behind[2], ((Boolean) behind[3]).booleanValue());
      Object found = answer.await();
      plan.giveBack(kept);
      return found;
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
