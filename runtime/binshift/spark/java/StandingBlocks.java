package dev.binshift;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.DownloadFileManager;
import org.apache.spark.storage.BlockData;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.BlockManagerMessages;
import org.apache.spark.storage.StorageLevel;
import org.apache.spark.storage.StreamBlockId;
import org.apache.spark.util.io.ChunkedByteBuffer;
import scala.Option;
import scala.reflect.ClassTag$;

/**
 * Bytes that a standing task keeps for others, as blocks of its executor's block manager: they spill to disk where memory is short, and
 * other executors read them over Spark's own transport, which authenticates and encrypts as the application is configured to. The driver
 * is not informed of them. Raw types: the run-time compiler infers no generics.
 */
public class StandingBlocks {
  /** Names the blocks, together with a number that is unique in the executor. */
  private static final int STREAM = 0x62696e73;

  private static final AtomicLong NUMBERS = new AtomicLong();

  private final ArrayList kept = new ArrayList();

  private static BlockManager manager() {
    return StandingEnv.blockManager();
  }

  /** Keep the first bytes of an array, and return the block's name. */
  public synchronized String put(byte[] bytes, int size) {
    BlockManager manager = manager();
    BlockId id = new StreamBlockId(STREAM, NUMBERS.incrementAndGet());
    ChunkedByteBuffer buffer = new ChunkedByteBuffer(ByteBuffer.wrap(java.util.Arrays.copyOf(bytes, size)));
    boolean stored =
        manager.putBytes(
            id, buffer, StorageLevel.MEMORY_AND_DISK_SER(), false, manager.putBytes$default$5(), manager.putBytes$default$6(),
            ClassTag$.MODULE$.Any());
    if (!stored) {
      throw new IllegalStateException("No space left on device: the executor cannot keep " + size + " bytes of an epoch's rows");
    }
    kept.add(id);
    return id.name();
  }

  /** Host, port, executor and name of each block of an executor, in turn, as read takes them. */
  public static Object[] located(String host, int port, String executor, String[] names) {
    Object[] found = new Object[4 * names.length];
    for (int i = 0; i < names.length; i++) {
      found[4 * i] = host;
      found[4 * i + 1] = Integer.valueOf(port);
      found[4 * i + 2] = executor;
      found[4 * i + 3] = names[i];
    }
    return found;
  }

  /** The same of this executor. */
  public static Object[] own(String[] names) {
    BlockManagerId me = manager().blockManagerId();
    return located(me.host(), me.port(), me.executorId(), names);
  }

  /** Remove all of them. */
  public synchronized void clear() {
    BlockManager manager = manager();
    for (int i = 0; i < kept.size(); i++) {
      manager.removeBlock((BlockId) kept.get(i), false);
    }
    kept.clear();
  }

  /** The bytes of the block whose host, port, executor and name begin there. */
  public static byte[] read(Object[] blocks, int at) {
    String executor = (String) blocks[at + 2];
    try {
      return read((String) blocks[at], ((Integer) blocks[at + 1]).intValue(), executor, (String) blocks[at + 3]);
    } catch (Exception error) {
      throw new RuntimeException("FetchFailed: a block of an epoch from executor " + executor, error);
    }
  }

  /** Whether Spark's driver has this executor; an error, as of a block that cannot be read, if not. */
  public static void checkAlive(String executor) {
    Object question = new BlockManagerMessages.IsExecutorAlive(executor);
    if (!((Boolean) manager().master().driverEndpoint().askSync(question, ClassTag$.MODULE$.Any())).booleanValue()) {
      throw new RuntimeException("FetchFailed: executor " + executor + ", which has a block of an epoch, is lost");
    }
  }

  private static byte[] read(String host, int port, String executor, String name) throws Exception {
    BlockManager manager = manager();
    if (manager.blockManagerId().executorId().equals(executor)) {
      return local(manager, BlockId.apply(name));
    }
    ManagedBuffer found =
        manager.blockTransferService().fetchBlockSync(host, port, executor, name, (DownloadFileManager) manager.remoteBlockTempFileManager());
    try {
      return bytes(found.nioByteBuffer());
    } finally {
      found.release();
    }
  }

  private static byte[] local(BlockManager manager, BlockId id) {
    Option found = manager.getLocalBytes(id);
    if (!found.isDefined()) {
      throw new IllegalStateException("Failed to connect to block " + id.name() + ": the executor has lost it");
    }
    BlockData data = (BlockData) found.get();
    try {
      return bytes(data.toByteBuffer());
    } finally {
      manager.releaseLock(id, Option.empty());
    }
  }

  private static byte[] bytes(ByteBuffer from) {
    byte[] found = new byte[from.remaining()];
    from.get(found);
    return found;
  }
}
