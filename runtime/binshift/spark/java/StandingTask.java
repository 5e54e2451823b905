package dev.binshift;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcTimeout;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.RpcUtils;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.concurrent.duration.FiniteDuration;
import scala.reflect.ClassTag$;

/**
 * A task that stays: it asks the driver for its next order, carries it out (see StandingWork), and asks again with what came of it. Tasks
 * never wait for each other. Raw types: the run-time compiler infers no generics.
 */
public class StandingTask extends RDD {
  /** The local property with the Unix socket on which the JVM waits for its Python worker. */
  private static final String SOCKET = "binshift.standing.socket";

  private final String endpoint;
  private final String id;
  private final String location;

  public StandingTask(SparkContext context, String endpoint, String id, String location) {
    super(context, (Seq) (Object) Nil$.MODULE$, ClassTag$.MODULE$.Any());
    this.endpoint = endpoint;
    this.id = id;
    this.location = location;
  }

  public Partition[] getPartitions() {
    return StandingInput.Part.several(1);
  }

  public Seq getPreferredLocations(Partition partition) {
    return (Seq) Nil$.MODULE$.$colon$colon(location);
  }

  public scala.collection.Iterator compute(Partition partition, TaskContext context) {
    try {
      // Nobody but this user may enter the folder.
      Path folder = Files.createTempDirectory("binshift", new java.nio.file.attribute.FileAttribute[0]);
      Path path = folder.resolve("s");
      ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
      server.bind(UnixDomainSocketAddress.of(path));
      ((TaskContextImpl) context).getLocalProperties().setProperty(SOCKET, path.toString());
      return new Loop(endpoint, id, (TaskContextImpl) context, server, path);
    } catch (java.io.IOException error) {
      throw new RuntimeException(error);
    }
  }

  /** Returns no row; its end is the end of the task. */
  public static class Loop extends scala.collection.AbstractIterator {
    private static final long ASK_DAYS = 365;
    private static final long CONNECT_SECONDS_MAX = 60;
    private static final long POLL_MILLIS = 5;

    private final String endpoint;
    private final String id;
    private final TaskContextImpl context;
    private final ServerSocketChannel server;
    private final Path path;
    private final StandingBlocks blocks = new StandingBlocks();
    private boolean done = false;
    private SocketChannel orders;
    private SocketChannel answers;
    private long pid = -1;
    private DataInputStream fromPython;
    private DataOutputStream toPython;
    private StandingWork work;

    public Loop(String endpoint, String id, TaskContextImpl context, ServerSocketChannel server, Path path) {
      this.endpoint = endpoint;
      this.id = id;
      this.context = context;
      this.server = server;
      this.path = path;
    }

    public Object next() {
      throw new java.util.NoSuchElementException();
    }

    public boolean hasNext() {
      if (!done) {
        done = true;
        try {
          connect();
          serve();
          pid = -1;
        } catch (Exception error) {
          throw new RuntimeException(error);
        } finally {
          close();
        }
      }
      return false;
    }

    private void connect() throws Exception {
      orders = accepted(); // two channels: reading and writing one would exclude each other
      answers = accepted();
      server.close();
      Files.delete(path);
      Files.delete(path.getParent());
      fromPython = new DataInputStream(new BufferedInputStream(Channels.newInputStream(answers), 1 << 16));
      toPython = new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(orders), 1 << 16));
      pid = fromPython.readInt();
      work = new StandingWork(context, blocks, fromPython, toPython);
    }

    /** A connection of the Python worker, which may have failed before it could connect. */
    private SocketChannel accepted() throws Exception {
      server.configureBlocking(false);
      long deadline = System.nanoTime() + CONNECT_SECONDS_MAX * 1000000000L;
      while (System.nanoTime() < deadline) {
        SocketChannel found = server.accept();
        if (found != null) {
          return found;
        }
        Thread.sleep(POLL_MILLIS);
      }
      throw new IllegalStateException("Python worker exited unexpectedly: it has not connected in " + CONNECT_SECONDS_MAX + " s");
    }

    private void close() {
      blocks.clear();
      if (pid >= 0 && ProcessHandle.of(pid).isPresent()) {
        ((ProcessHandle) ProcessHandle.of(pid).get()).destroyForcibly(); // it can be in the middle of the user's function
      }
      try {
        server.close();
        if (orders != null) {
          orders.close();
        }
        if (answers != null) {
          answers.close();
        }
      } catch (java.io.IOException error) {
        error.printStackTrace();
      }
    }

    private void serve() throws Exception {
      RpcEndpointRef driver = RpcUtils.makeDriverRef(endpoint, StandingEnv.conf(), StandingEnv.rpcEnv());
      RpcTimeout timeout = new RpcTimeout(new FiniteDuration(ASK_DAYS, java.util.concurrent.TimeUnit.DAYS), "spark.rpc.askTimeout");
      BlockManagerId me = StandingEnv.blockManager().blockManagerId();
      Long attempt = Long.valueOf(context.taskAttemptId());
      Object report = new Object[] {id, "ready", attempt, me.host(), Integer.valueOf(me.port()), me.executorId()};
      while (true) {
        Object[] order = (Object[]) driver.askSync(report, timeout, ClassTag$.MODULE$.Any());
        String kind = (String) order[0];
        if (kind.equals("end")) {
          toPython.writeInt(-1);
          toPython.flush();
          return;
        }
        try {
          report = new Object[] {id, "done", attempt, work.done(order)};
        } catch (StandingAnswer.PythonFailed error) {
          report = new Object[] {id, "failed", attempt, error.getMessage()};
        } catch (Exception error) {
          report = new Object[] {id, "failed", attempt, text(error)};
          if (work.hasBegun()) { // the Python worker has had a part of the order, and cannot go on
            driver.send(report);
            throw error;
          }
        }
      }
    }

    public static String text(Throwable error) {
      java.io.StringWriter text = new java.io.StringWriter();
      error.printStackTrace(new java.io.PrintWriter(text));
      return text.toString();
    }
  }
}
