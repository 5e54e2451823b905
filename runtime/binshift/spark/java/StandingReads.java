package dev.binshift;

import java.util.ArrayList;
import java.util.Arrays;
import org.apache.spark.Dependency;
import org.apache.spark.NarrowDependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * What tasks compute before an exchange: an RDD over inputs, of which each epoch sends the RDDs. A task gets the partitions that it has to
 * compute, with those of the inputs that they read. Raw types: the run-time compiler infers no generics.
 */
public class StandingReads {
  private final Long number;
  private final byte[] rows;
  private final byte[][] parts;

  /** Of each partition: the number of an input, and a partition of it, in turn. */
  private final int[][] reads;

  public StandingReads(Long number, RDD rows) {
    Partition[] all = rows.partitions();
    this.number = number;
    this.rows = StandingContext.bytes(rows);
    this.parts = new byte[all.length][];
    this.reads = new int[all.length][];
    for (int i = 0; i < all.length; i++) {
      ArrayList found = new ArrayList();
      collect(rows, i, found);
      parts[i] = StandingContext.bytes(all[i]);
      reads[i] = new int[found.size()];
      for (int j = 0; j < found.size(); j++) {
        reads[i][j] = ((Integer) found.get(j)).intValue();
      }
    }
  }

  private static void collect(RDD rows, int part, ArrayList found) {
    if (rows instanceof StandingInput) {
      found.add(Integer.valueOf(((StandingInput) rows).number()));
      found.add(Integer.valueOf(part));
    }
    Seq dependencies = rows.dependencies();
    for (int i = 0; i < dependencies.size(); i++) {
      NarrowDependency each = (NarrowDependency) dependencies.apply(i);
      Seq parents = (Seq) (Object) each.getParents(part);
      for (int j = 0; j < parents.size(); j++) {
        collect(each.rdd(), ((Integer) parents.apply(j)).intValue(), found);
      }
    }
  }

  /** Whether these rows need a job with a shuffle. Once asked for, an RDD's dependencies are sent along with it. */
  public static boolean shuffles(RDD rows) {
    Seq found = rows.dependencies();
    rows.partitions();
    boolean any = false;
    for (int i = 0; i < found.size(); i++) {
      any |= found.apply(i) instanceof ShuffleDependency || shuffles(((Dependency) found.apply(i)).rdd());
    }
    return any;
  }

  /** Let the readers compute everything; sources gets, for each owner, where its rows of this exchange are. sent: the inputs, as bytes. */
  public void send(
      StandingDriver driver, RDD[] inputs, byte[][] sent, String[] readers, StandingRoute route, int owners, Object[][][] sources,
      int exchange, boolean later) throws Exception {
    ArrayList[] shares = new ArrayList[readers.length];
    for (int i = 0; i < shares.length; i++) {
      shares[i] = new ArrayList();
    }
    for (int i = 0; i < parts.length; i++) {
      shares[preferred(driver, inputs, i, readers)].add(share(inputs, i));
    }
    Object[] orders = new Object[readers.length];
    for (int i = 0; i < readers.length; i++) {
      Object[] code = driver.given(readers[i], number, rows);
      Object[] places = driver.given(readers[i], route.number, route.content);
      orders[i] = new Object[] {"map", code, Boolean.valueOf(later), sent, shares[i].toArray(), Integer.valueOf(owners), places};
    }
    Object[] answers = driver.ask(readers, orders);
    ArrayList[] found = new ArrayList[owners];
    for (int i = 0; i < owners; i++) {
      found[i] = new ArrayList();
    }
    for (int i = 0; i < readers.length; i++) {
      Object[] answer = (Object[]) answers[i];
      byte[][] metrics = (byte[][]) answer[1];
      for (int j = 0; j < metrics.length; j++) {
        StandingContext.add(metrics[j]);
      }
      for (int j = 0; j < owners; j++) {
        found[j].addAll(Arrays.asList(driver.member(readers[i]).blocks((String[]) ((Object[]) answer[0])[j])));
      }
    }
    for (int i = 0; i < owners; i++) {
      sources[i][exchange] = found[i].toArray();
    }
  }

  /** A partition, and then number, partition's number and partition of each input that it reads, in turn. */
  private Object[] share(RDD[] inputs, int part) {
    Object[] found = new Object[1 + reads[part].length / 2 * 3];
    found[0] = parts[part];
    for (int i = 0; i < reads[part].length / 2; i++) {
      int input = reads[part][2 * i];
      int read = reads[part][2 * i + 1];
      found[1 + 3 * i] = Integer.valueOf(input);
      found[2 + 3 * i] = Integer.valueOf(read);
      found[3 + 3 * i] = StandingContext.bytes(inputs[input].partitions()[read]);
    }
    return found;
  }

  /** The reader on an executor that a partition's rows prefer, or else each in turn. */
  private int preferred(StandingDriver driver, RDD[] inputs, int part, String[] readers) {
    for (int i = 0; i < reads[part].length; i += 2) {
      RDD input = inputs[reads[part][i]];
      Seq locations = input.preferredLocations(input.partitions()[reads[part][i + 1]]);
      for (int j = 0; j < locations.size(); j++) {
        for (int k = 0; k < readers.length; k++) {
          StandingDriver.Member member = driver.member(readers[k]);
          if (locations.apply(j).equals(member.host) || locations.apply(j).equals(member.location())) {
            return k;
          }
        }
      }
    }
    return part % readers.length;
  }

  /** The rows of an order's inputs, in a task. */
  public static class Inputs implements StandingInput.Source {
    private final Object[] sent;
    private final Object[] share;

    public Inputs(Object[] sent, Object[] share) {
      this.sent = sent;
      this.share = share;
    }

    public scala.collection.Iterator rows(int number, StructType schema, int partition, TaskContext context) {
      for (int i = 1; i < share.length; i += 3) {
        if (((Integer) share[i]).intValue() == number && ((Integer) share[i + 1]).intValue() == partition) {
          RDD rows = (RDD) StandingContext.read((byte[]) sent[number]);
          return rows.iterator((Partition) StandingContext.read((byte[]) share[i + 2]), context);
        }
      }
      throw new IllegalStateException("partition " + partition + " of input " + number + " has not been sent");
    }
  }
}
