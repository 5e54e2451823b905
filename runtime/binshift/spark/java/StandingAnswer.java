package dev.binshift;

import java.io.DataInputStream;
import java.util.ArrayList;

/** Takes what S returns while it still reads rows: chunks of output, which are kept, and at last its summary or its error. */
public class StandingAnswer extends Thread {
  private static final int END = -1;
  private static final int FAILED = -2;

  private final DataInputStream from;
  private final StandingBlocks blocks;
  private final int kept;
  private final ArrayList chunks = new ArrayList();
  private final ArrayList names = new ArrayList();
  private int bytes = 0;
  private byte[] summary;
  private String failure;
  private Exception lost;

  /** kept: the bytes of output that are returned to the driver; more of it stays in blocks. */
  public StandingAnswer(DataInputStream from, StandingBlocks blocks, int kept) {
    super("binshift-standing-answer");
    setDaemon(true);
    this.from = from;
    this.blocks = blocks;
    this.kept = kept;
  }

  public void run() {
    try {
      while (true) {
        int size = from.readInt();
        byte[] data = new byte[size < 0 ? from.readInt() : size];
        from.readFully(data);
        if (size == END) {
          summary = data;
          return;
        }
        if (size == FAILED) {
          failure = new String(data, "UTF-8");
          return;
        }
        chunks.add(data);
        bytes += size;
        if (bytes > kept) {
          store();
        }
      }
    } catch (Exception error) {
      lost = error;
    }
  }

  private void store() {
    for (int i = 0; i < chunks.size(); i++) {
      byte[] data = (byte[]) chunks.get(i);
      names.add(blocks.put(data, data.length));
    }
    chunks.clear();
  }

  /** The summary, the names of the blocks of output, and output that is in no block. */
  public Object await() throws Exception {
    join();
    if (lost != null) {
      throw new RuntimeException("Python worker exited unexpectedly", lost);
    }
    if (failure != null) {
      throw new PythonFailed(failure);
    }
    if (names.size() > 0) {
      store();
    }
    return new Object[] {summary, names.toArray(new String[names.size()]), chunks.toArray()};
  }

  /** S has raised an error; the message has Python's traceback. */
  public static class PythonFailed extends Exception {
    public PythonFailed(String message) {
      super(message);
    }
  }
}
