package dev.binshift;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;

/**
 * How tasks write result files: each under a name that nothing ever had, hidden by a dot, in the one directory of a run.
 * Tasks send the names and sizes of what they wrote to the driver; no directory is listed, as one that cannot be read may seem
 * empty. Files that no finished task names stay hidden. Nothing is renamed here.
 */
public class StagedFiles extends FileCommitProtocol implements Serializable {
  private static final ConcurrentHashMap WRITTEN = new ConcurrentHashMap();

  private final String root;
  private transient ArrayList files;

  public StagedFiles(String jobId, String path) {
    this.root = path;
  }

  /** What the job that wrote to a directory of that name has written: a line "size, tab, visible name" for each file. */
  public static String take(String name) {
    return (String) WRITTEN.remove(name);
  }

  public void setupJob(JobContext job) {}

  public void setupTask(TaskAttemptContext task) {
    files = new ArrayList();
  }

  public String newTaskTempFile(TaskAttemptContext task, scala.Option dir, FileNameSpec spec) {
    String folder = dir.isDefined() ? dir.get() + "/" : "";
    int part = task.getTaskAttemptID().getTaskID().getId();
    String name = spec.prefix() + String.format("part-%05d-", new Object[] {Integer.valueOf(part)}) + UUID.randomUUID() + spec.suffix();
    files.add(new String[] {folder, name});
    return hidden(folder, name).toString();
  }

  public String newTaskTempFile(TaskAttemptContext task, scala.Option dir, String extension) {
    return newTaskTempFile(task, dir, new FileNameSpec("", extension));
  }

  public String newTaskTempFileAbsPath(TaskAttemptContext task, String dir, String extension) {
    throw new UnsupportedOperationException("results are written to one directory, not to " + dir);
  }

  public String newTaskTempFileAbsPath(TaskAttemptContext task, String dir, FileNameSpec spec) {
    return newTaskTempFileAbsPath(task, dir, spec.suffix());
  }

  public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext task) {
    StringBuilder written = new StringBuilder();
    for (int i = 0; i < files.size(); i++) {
      String[] file = (String[]) files.get(i);
      written.append(size(task, hidden(file[0], file[1]))).append('\t').append(file[0]).append(file[1]).append('\n');
    }
    return new FileCommitProtocol.TaskCommitMessage(written.toString());
  }

  public void abortTask(TaskAttemptContext task) {
    for (int i = 0; i < files.size(); i++) {
      String[] file = (String[]) files.get(i);
      Path path = hidden(file[0], file[1]);
      try {
        path.getFileSystem(task.getConfiguration()).delete(path, false);
      } catch (IOException hiddenAnyway) {
        // Nobody reads it, and it goes with its directory.
      }
    }
  }

  public void commitJob(JobContext job, scala.collection.immutable.Seq tasks) {
    StringBuilder written = new StringBuilder();
    for (scala.collection.Iterator each = tasks.iterator(); each.hasNext(); ) {
      written.append(((FileCommitProtocol.TaskCommitMessage) each.next()).obj());
    }
    WRITTEN.put(new Path(root).getName(), written.toString());
  }

  public void abortJob(JobContext job) {}

  private Path hidden(String folder, String name) {
    return new Path(root, folder + "." + name);
  }

  private static long size(TaskAttemptContext task, Path path) {
    try {
      return path.getFileSystem(task.getConfiguration()).getFileStatus(path).getLen();
    } catch (IOException error) {
      throw new IllegalStateException("the size of " + path + " cannot be read", error);
    }
  }
}
