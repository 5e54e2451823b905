package dev.binshift;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** One of Spark's aggregate functions that returns its buffer, as bytes, instead of its value; see AggregateBuffer. */
public class BufferedAggregate extends TypedImperativeAggregate implements java.io.Serializable {
  private final AggregateFunction function;
  private final int mutableOffset;
  private final int inputOffset;
  private transient AggregateBuffer buffer;

  public BufferedAggregate(AggregateFunction function, int mutableOffset, int inputOffset) {
    this.function = function;
    this.mutableOffset = mutableOffset;
    this.inputOffset = inputOffset;
  }

  /** The aggregate expression that returns a function's buffer over the rows that pass a filter. */
  public static Expression buffered(AggregateFunction function, Option filter) {
    return new BufferedAggregate(function, 0, 0).toAggregateExpression(false, filter);
  }

  /** The expression that merges two columns of buffers. */
  public static Expression merged(AggregateFunction function, Expression one, Expression other) {
    return call(function, "merge", DataTypes.BinaryType, new Expression[] {one, other});
  }

  /** The expression that makes bytes of a struct of a buffer's columns. */
  public static Expression packed(AggregateFunction function, Expression columns) {
    return call(function, "pack", DataTypes.BinaryType, new Expression[] {columns});
  }

  /** The expression that evaluates a column of lists of buffers. */
  public static Expression evaluated(AggregateFunction function, Expression buffers) {
    return call(function, "evaluate", function.dataType(), new Expression[] {buffers});
  }

  private static Expression call(AggregateFunction function, String method, DataType type, Expression[] arguments) {
    Literal target = new Literal(AggregateBuffer.of(function), new ObjectType(AggregateBuffer.class));
    Seq none = (Seq) Nil$.MODULE$;
    return new Invoke(target, method, type, AggregateBuffer.list(arguments), none, false, true, true);
  }

  private AggregateBuffer buffer() {
    if (buffer == null) {
      buffer = AggregateBuffer.of(function);
    }
    return buffer;
  }

  public Object createAggregationBuffer() {
    return buffer().create();
  }

  public Object update(Object current, InternalRow row) {
    return buffer().update(current, row);
  }

  public Object merge(Object one, Object other) {
    return buffer().mergeBuffers(one, other);
  }

  public Object eval(Object current) {
    return serialize(current);
  }

  public byte[] serialize(Object current) {
    return buffer().serialize(current);
  }

  public Object deserialize(byte[] bytes) {
    return buffer().deserialize(bytes);
  }

  /** No buffer at all stands for that of no rows. */
  public boolean nullable() {
    return true;
  }

  public DataType dataType() {
    return DataTypes.BinaryType;
  }

  public Seq children() {
    return function.children();
  }

  public Expression withNewChildrenInternal(IndexedSeq children) {
    return new BufferedAggregate((AggregateFunction) function.withNewChildren(children), mutableOffset, inputOffset);
  }

  public int mutableAggBufferOffset() {
    return mutableOffset;
  }

  public int inputAggBufferOffset() {
    return inputOffset;
  }

  public ImperativeAggregate withNewMutableAggBufferOffset(int offset) {
    return new BufferedAggregate(function, offset, inputOffset);
  }

  public ImperativeAggregate withNewInputAggBufferOffset(int offset) {
    return new BufferedAggregate(function, mutableOffset, offset);
  }

  public int productArity() {
    return 3;
  }

  public Object productElement(int at) {
    return at == 0 ? (Object) function : Integer.valueOf(at == 1 ? mutableOffset : inputOffset);
  }

  public boolean canEqual(Object other) {
    return other instanceof BufferedAggregate;
  }

  public boolean equals(Object other) {
    return other instanceof BufferedAggregate && ((BufferedAggregate) other).function.equals(function);
  }

  public int hashCode() {
    return function.hashCode();
  }
}
