package dev.binshift;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.rpc.RpcCallContext;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.rpc.ThreadSafeRpcEndpoint;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import scala.Function1;
import scala.PartialFunction;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * The driver's end of standing tasks: an endpoint of Spark's own RPC. A task's question for its next order waits here until there is one.
 * Raw types: the run-time compiler infers no generics.
 */
public class StandingDriver implements ThreadSafeRpcEndpoint {
  private final RpcEnv env = StandingEnv.rpcEnv();
  private final SparkContext context = SparkContext.getOrCreate();
  private final RpcEndpointRef self;
  private final HashMap members = new HashMap();
  private final Losses losses = new Losses(this);
  private boolean ended = false;

  /** A standing task. */
  public static class Member {
    public String host;
    public int port;
    public String executor;
    public long attempt;
    public final StandingCode code = new StandingCode();
    public RpcCallContext waiting;
    public Object answer;
    public String failure;

    /** Its executor's name in a preferred location of Spark's scheduler. */
    public String location() {
      return "executor_" + host + "_" + executor;
    }

    /** Where its blocks are; see StandingBlocks. */
    public Object[] blocks(String[] names) {
      return StandingBlocks.located(host, port, executor, names);
    }
  }

  /** A run of an epoch has failed; the message has the reason, as a failed job of Spark would have it. */
  public static class Failed extends RuntimeException {
    public Failed(String message) {
      super(message);
    }
  }

  public StandingDriver(String name) {
    self = env.setupEndpoint(name, this);
    context.listenerBus().addToStatusQueue(losses); // behind Spark's list of executors, which lacks a removed one by then
  }

  /**
   * Hears of the executors that Spark has removed. The job of a standing task can end much later, as Spark may have the task wait for another
   * executor.
   */
  public static class Losses extends SparkListener {
    private final StandingDriver driver;

    public Losses(StandingDriver driver) {
      this.driver = driver;
    }

    public void onExecutorRemoved(SparkListenerExecutorRemoved removed) {
      driver.lost(removed.executorId(), "Worker lost: Spark has removed executor " + removed.executorId() + ": " + removed.reason());
    }
  }

  public RpcEnv rpcEnv() {
    return env;
  }

  public PartialFunction receive() {
    return new Handler(this, null);
  }

  public PartialFunction receiveAndReply(RpcCallContext context) {
    return new Handler(this, context);
  }

  /** Takes a report; of a task that ends with it, nobody waits for a reply. */
  public static class Handler extends AbstractPartialFunction {
    private final StandingDriver driver;
    private final RpcCallContext context;

    public Handler(StandingDriver driver, RpcCallContext context) {
      this.driver = driver;
      this.context = context;
    }

    public boolean isDefinedAt(Object message) {
      return message instanceof Object[];
    }

    public Object applyOrElse(Object message, Function1 otherwise) {
      driver.reported((Object[]) message, context);
      return BoxedUnit.UNIT;
    }
  }

  public synchronized void reported(Object[] report, RpcCallContext context) {
    String id = (String) report[0];
    long attempt = ((Number) report[2]).longValue();
    Member member = (Member) members.get(id);
    if (!ended && report[1].equals("ready") && (member == null || member.attempt < attempt)) {
      lost(id, "Worker lost: the standing task of executor " + id + " has begun again");
      member = new Member();
      member.attempt = attempt;
      member.host = (String) report[3];
      member.port = ((Integer) report[4]).intValue();
      member.executor = (String) report[5];
      members.put(id, member);
    }
    if (member == null || member.attempt != attempt) { // it was replaced, or the query has ended
      if (context != null) {
        context.reply(new Object[] {"end"});
      }
      return;
    }
    member.waiting = context;
    if (report[1].equals("done")) {
      member.answer = report[3];
    } else if (report[1].equals("failed")) {
      member.failure = (String) report[3];
      member.code.clear(); // it may not have what came with the order
    }
    notifyAll();
  }

  /** Whether these tasks wait for an order, or do so within some milliseconds. Ids are separated by commas; a task that has ended is not waited for. */
  public synchronized boolean areReady(String ids, long millis) throws InterruptedException {
    String[] all = ids.split(",");
    long deadline = System.nanoTime() + millis * 1000000L;
    while (true) {
      boolean ready = true;
      for (int i = 0; i < all.length; i++) {
        Member member = (Member) members.get(all[i]);
        if (member == null) {
          return false;
        }
        ready &= member.waiting != null;
      }
      long left = deadline - System.nanoTime();
      if (ready || left <= 0) {
        return ready;
      }
      wait(left / 1000000L + 1);
    }
  }

  public synchronized Member member(String id) {
    Member found = (Member) members.get(id);
    if (found == null) {
      throw new Failed("Worker lost: the standing task of executor " + id + " has ended");
    }
    return found;
  }

  /** A plan for a task's order, with its content if the task does not have it. */
  public synchronized Object[] given(String id, Long number, byte[] content) {
    return member(id).code.given(number, content);
  }

  /** Pass each task a message, and wait for all answers; where there is none, the reason. Ids are separated by commas; each message follows its size. */
  public List passed(String ids, byte[] messages) throws Exception {
    String[] all = ids.split(",");
    Object[] orders = new Object[all.length];
    DataInputStream from = new DataInputStream(new ByteArrayInputStream(messages));
    for (int i = 0; i < orders.length; i++) {
      orders[i] = new Object[] {"pass", next(from)};
    }
    return Arrays.asList(ask(all, orders, true));
  }

  /** The next of several values, each after its size. */
  public static byte[] next(DataInputStream from) throws java.io.IOException {
    byte[] found = new byte[from.readInt()];
    from.readFully(found);
    return found;
  }

  /** Give each task its order, and wait for all answers. */
  public Object[] ask(String[] ids, Object[] orders) throws InterruptedException {
    return ask(ids, orders, false);
  }

  /** each: a failure is an answer. Public: the run-time compiler makes static methods of private ones, which are not synchronized. */
  public synchronized Object[] ask(String[] ids, Object[] orders, boolean each) throws InterruptedException {
    Member[] asked = new Member[ids.length];
    try {
      for (int i = 0; i < ids.length; i++) {
        asked[i] = waiting(ids[i]);
      }
    } catch (Failed error) {
      for (int i = 0; i < ids.length; i++) {
        forget(ids[i]);
      }
      throw error;
    }
    for (int i = 0; i < ids.length; i++) {
      asked[i].answer = null;
      asked[i].failure = null;
      RpcCallContext context = asked[i].waiting;
      asked[i].waiting = null;
      context.reply(orders[i]);
    }
    Object[] answers = new Object[ids.length];
    while (true) {
      int missing = 0;
      for (int i = 0; i < ids.length; i++) {
        if (asked[i].failure != null && !each) {
          throw new Failed(asked[i].failure);
        }
        answers[i] = asked[i].failure != null ? asked[i].failure : asked[i].answer;
        missing += answers[i] == null ? 1 : 0;
      }
      if (missing == 0) {
        return answers;
      }
      if (ended) {
        throw new Failed("Job 0 cancelled: the query is being stopped");
      }
      wait();
    }
  }

  private Member waiting(String id) {
    Member found = member(id);
    if (found.waiting == null) {
      throw new Failed("Worker lost: the standing task of executor " + id + " is still busy with an earlier run");
    }
    return found;
  }

  /** The plans of an order that was not given have to be given again. */
  private void forget(String id) {
    Member member = (Member) members.get(id);
    if (member != null) {
      member.code.clear();
    }
  }

  /** A task has ended, for a reason if it should not have. */
  public synchronized void lost(String id, String reason) {
    Member member = (Member) members.remove(id);
    if (member != null && member.failure == null) {
      member.failure = reason;
    }
    notifyAll();
  }

  /** Let all tasks end, each after its order, if it has one. */
  public synchronized void end() {
    ended = true;
    Object[] ids = members.keySet().toArray();
    for (int i = 0; i < ids.length; i++) {
      Member member = (Member) members.remove(ids[i]);
      if (member.waiting != null) {
        member.waiting.reply(new Object[] {"end"});
      }
    }
    notifyAll();
  }

  /** Let go of the endpoint; tasks that still run fail at their next question. */
  public void close() {
    end();
    context.listenerBus().removeListener(losses);
    env.stop(self);
  }
}
