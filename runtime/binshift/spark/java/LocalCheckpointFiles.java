package dev.binshift;

import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.File;
import java.nio.channels.FileChannel;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.util.ArrayList;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Spark's checkpoint files in a directory of this machine, or one mounted on it. Spark's own manager for these goes
 * through Hadoop, which starts a process (chmod) for every file it creates: 30-40 ms each, two files an epoch. Here a
 * file gets its name by link or rename once its bytes are on the disk, and its directory entry with it; Spark's does
 * not sync at all. The files themselves are the same. They are small, and kept in memory until they are closed.
 */
public class LocalCheckpointFiles implements CheckpointFileManager {
  /** How often, and how long apart, a file is tried again that cannot be read or written. */
  private static final int TRIES = 60;
  private static final long PAUSE_MS = 1000L;

  private final FileSystem files;
  private final Path root;

  public LocalCheckpointFiles(Path path, Configuration conf) throws IOException {
    String scheme = path.toUri().getScheme();
    if (scheme != null && !scheme.equals("file")) {
      throw new IOException(
          path + " is on no local disk: another query of the session was being started, and had set this class for itself."
              + " Start the query again");
    }
    RawLocalFileSystem raw = new RawLocalFileSystem();
    raw.initialize(java.net.URI.create("file:///"), conf);
    this.files = raw;
    this.root = raw.makeQualified(path);
  }

  private static File file(Path path) {
    return new File(path.toUri().getPath());
  }

  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    try {
      return new Atomic(file(path), overwrite);
    } catch (IOException error) {
      throw sneaked(error);
    }
  }

  public FSDataInputStream open(final Path path) {
    return (FSDataInputStream) new Read(path) {
      Object once() throws IOException {
        return files.open(path);
      }
    }.repeated();
  }

  public FileStatus[] list(final Path path, final PathFilter filter) {
    return (FileStatus[]) new Read(path) {
      Object once() throws IOException {
        File[] found = file(path).listFiles();
        if (found == null) {
          return null;
        }
        ArrayList kept = new ArrayList();
        for (int i = 0; i < found.length; i++) {
          Path each = new Path(path, found[i].getName());
          if (filter.accept(each)) {
            kept.add(new FileStatus(found[i].length(), found[i].isDirectory(), 1, 1L << 25, found[i].lastModified(), each));
          }
        }
        return (FileStatus[]) kept.toArray(new FileStatus[0]);
      }
    }.repeated();
  }

  public void mkdirs(Path path) {
    try {
      Files.createDirectories(file(path).toPath(), new FileAttribute[0]);
    } catch (IOException error) {
      throw sneaked(error);
    }
  }

  public boolean exists(final Path path) {
    return ((Boolean) new Read(path) {
      Object once() {
        return file(path).exists() ? Boolean.TRUE : null;
      }

      Object missing(IOException error) {
        return Boolean.FALSE;
      }
    }.repeated()).booleanValue();
  }

  public void delete(Path path) {
    try {
      files.delete(path, true);
    } catch (java.io.FileNotFoundException error) {
      return;
    } catch (IOException error) {
      throw sneaked(error);
    }
  }

  public boolean isLocal() {
    return true;
  }

  public Path createCheckpointDirectory() {
    mkdirs(root);
    return root;
  }

  /** Whether the file is known to be missing: Java reports this for any file on a failing disk, and Spark relies on it. */
  private static boolean isMissing(File file) {
    return Files.notExists(file.toPath(), new LinkOption[0]);
  }

  private static void pause() {
    try {
      Thread.sleep(PAUSE_MS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw sneaked(new java.io.InterruptedIOException("the query is being stopped"));
    }
  }

  /** Spark expects the checked exceptions of Hadoop's classes from methods that Scala declares without any. */
  private static RuntimeException sneaked(Throwable error) {
    org.apache.spark.unsafe.Platform.throwException(error);
    return new IllegalStateException(error);
  }

  /** A call that reads. On a failing disk it is tried again for a while, as a write is: the fault may be repaired. */
  private abstract static class Read {
    private final Path path;

    Read(Path path) {
      this.path = path;
    }

    /** One try. Null or an error: the file is missing or cannot be read. */
    abstract Object once() throws IOException;

    /** The result for a file that is known to be missing. */
    Object missing(IOException error) {
      throw sneaked(error != null ? error : new java.io.FileNotFoundException("File " + path + " does not exist"));
    }

    Object repeated() {
      for (int left = TRIES; ; left--) {
        IOException error = null;
        try {
          Object found = once();
          if (found != null) {
            return found;
          }
        } catch (IOException raised) {
          error = raised;
        }
        if (isMissing(file(path))) {
          return missing(error);
        }
        String why = error == null ? "it is not known whether it exists" : error.getMessage();
        String trouble = path + " cannot be read (" + why + ")";
        if (left == 0) {
          throw sneaked(new IOException(trouble + ": check its disk or file server", error));
        }
        System.err.println("binshift: " + trouble + "; it is tried again");
        pause();
      }
    }
  }

  /** A file that exists completely, or not at all. */
  private static class Atomic extends CheckpointFileManager.CancellableFSDataOutputStream {
    private final File target;
    private final ByteArrayOutputStream bytes;
    private final boolean overwrite;
    private boolean ended = false;
    private boolean named = false;
    /** Whether the file was perhaps renamed despite an error: then an existing file may be the one written here. */
    private boolean doubtful = false;

    Atomic(File target, boolean overwrite) throws IOException {
      this(target, new ByteArrayOutputStream(), overwrite);
    }

    private Atomic(File target, ByteArrayOutputStream bytes, boolean overwrite) {
      super(bytes);
      this.target = target;
      this.bytes = bytes;
      this.overwrite = overwrite;
    }

    /** Without space or write permission, or on a failing disk, it retries for a while: the fault may be repaired. */
    public synchronized void close() throws IOException {
      if (ended) {
        return;
      }
      ended = true;
      flush();
      for (int left = TRIES; ; left--) {
        try {
          write();
          return;
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException error) {
          throw error;
        } catch (java.nio.channels.ClosedByInterruptException error) {
          throw error; // the query is being stopped: no trouble of the disk's
        } catch (IOException error) {
          String trouble = target + " cannot be written (" + error.getMessage() + ")";
          if (left == 0 || isMissing(target.getParentFile())) {
            String advice = "check the disk, free space there, or give the user that runs binshift the right to write";
            throw new IOException(trouble + ": " + advice, error);
          }
          System.err.println("binshift: " + trouble + "; it is tried again");
          pause();
        }
      }
    }

    /** What failed after the file got its name is done again without opening it: a torn one would be worse than none. */
    private void write() throws IOException {
      if (!named) {
        File partial = new File(target.getParentFile(), "." + target.getName() + "." + UUID.randomUUID() + ".tmp");
        try {
          fill(partial);
          give(partial);
          named = true;
        } finally {
          partial.delete(); // if it cannot be, nothing reads it
        }
      }
      syncDirectory();
    }

    private void fill(File partial) throws IOException {
      FileOutputStream file = new FileOutputStream(partial);
      try {
        bytes.writeTo(file);
        file.getChannel().force(false);
      } finally {
        file.close();
      }
    }

    private void give(File partial) throws IOException {
      if (overwrite) {
        Files.move(partial.toPath(), target.toPath(), new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
        return;
      }
      try {
        Files.createLink(target.toPath(), partial.toPath());
      } catch (java.nio.file.FileAlreadyExistsException error) {
        if (!doubtful || !java.util.Arrays.equals(Files.readAllBytes(target.toPath()), bytes.toByteArray())) {
          throw new org.apache.hadoop.fs.FileAlreadyExistsException("Failed to rename: " + target + " exists");
        }
      } catch (IOException error) {
        doubtful = true;
        throw error;
      }
    }

    private void syncDirectory() throws IOException {
      FileChannel directory = FileChannel.open(target.getParentFile().toPath(), new OpenOption[] {StandardOpenOption.READ});
      try {
        directory.force(true);
      } finally {
        directory.close();
      }
    }

    public synchronized void cancel() {
      if (ended) {
        return;
      }
      ended = true;
    }
  }
}
