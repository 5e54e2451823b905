package dev.binshift;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import org.apache.spark.SparkConf;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.storage.BlockManager;

/**
 * The parts of Spark's environment, in the driver and in executors, and threads. The environment's class names classes that Spark does not
 * ship, so neither the run-time compiler nor reflection can list its methods; single methods can be called.
 */
public class StandingEnv {
  private static final ConcurrentHashMap METHODS = new ConcurrentHashMap();
  private static final ExecutorService THREADS = Executors.newCachedThreadPool(new Daemons());

  /** Threads that do not keep a JVM alive. */
  public static class Daemons implements ThreadFactory {
    public Thread newThread(Runnable work) {
      Thread made = new Thread(work, "binshift-standing");
      made.setDaemon(true);
      return made;
    }
  }

  /** Do something beside the calling thread. */
  public static Future submit(Callable work) {
    return THREADS.submit(work);
  }

  /** The current environment has it: another application of the same JVM has another one. */
  private static Object part(String name, Class type) {
    try {
      MethodHandle[] found = (MethodHandle[]) METHODS.get(name);
      if (found == null) {
        Class env = Class.forName("org.apache.spark.SparkEnv");
        MethodHandles.Lookup lookup = MethodHandles.publicLookup();
        MethodHandle current = lookup.findStatic(env, "get", MethodType.methodType(env));
        found = new MethodHandle[] {current, lookup.findVirtual(env, name, MethodType.methodType(type))};
        METHODS.put(name, found);
      }
      return found[1].invokeWithArguments(new Object[] {found[0].invokeWithArguments(new Object[0])});
    } catch (Throwable error) {
      throw new IllegalStateException("Spark's environment has no " + name, error);
    }
  }

  public static BlockManager blockManager() {
    return (BlockManager) part("blockManager", BlockManager.class);
  }

  public static MemoryManager memoryManager() {
    return (MemoryManager) part("memoryManager", MemoryManager.class);
  }

  public static RpcEnv rpcEnv() {
    return (RpcEnv) part("rpcEnv", RpcEnv.class);
  }

  public static SparkConf conf() {
    return (SparkConf) part("conf", SparkConf.class);
  }

  public static Serializer serializer() {
    return (Serializer) part("closureSerializer", Serializer.class);
  }
}
