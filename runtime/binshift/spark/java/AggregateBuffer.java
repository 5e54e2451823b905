package dev.binshift;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.MutableProjection;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * The buffer of one of Spark's aggregate functions as bytes: updated by rows, merged with other buffers, evaluated, by Spark's
 * own code. Whatever Spark aggregates can so be kept in a state that knows nothing of it. Raw types: the run-time compiler
 * infers no generics.
 */
public abstract class AggregateBuffer implements Serializable {
  public abstract Object create();

  public abstract Object update(Object buffer, InternalRow row);

  public abstract byte[] serialize(Object buffer);

  protected abstract Object deserialize(byte[] bytes);

  protected abstract Object mergeBuffers(Object one, Object other);

  protected abstract Object result(Object buffer);

  /** Two buffers as one; either may be null. */
  public byte[] merge(byte[] one, byte[] other) {
    if (one == null || other == null) {
      return one == null ? other : one;
    }
    return serialize(mergeBuffers(deserialize(one), deserialize(other)));
  }

  /** A buffer of several columns, which a struct has, as bytes. */
  public byte[] pack(InternalRow columns) {
    return serialize(columns);
  }

  /** The function's value for all of these buffers together; over no rows, if there are none. */
  public Object evaluate(ArrayData buffers) {
    Object all = create();
    for (int i = 0; buffers != null && i < buffers.numElements(); i++) {
      if (!buffers.isNullAt(i)) {
        all = mergeBuffers(all, deserialize(buffers.getBinary(i)));
      }
    }
    return result(all);
  }

  protected static Seq list(Object[] values) {
    ListBuffer list = new ListBuffer();
    for (int i = 0; i < values.length; i++) {
      list.addOne(values[i]);
    }
    return list.toList();
  }

  /** The buffer of a function whose arguments are resolved. */
  public static AggregateBuffer of(AggregateFunction function) {
    if (function instanceof TypedImperativeAggregate) {
      return new OfObject((TypedImperativeAggregate) function);
    }
    return function instanceof ImperativeAggregate
        ? (AggregateBuffer) new OfRow((ImperativeAggregate) function)
        : new OfExpressions((DeclarativeAggregate) function);
  }

  /** A buffer that is an object which Spark makes bytes of. */
  private static class OfObject extends AggregateBuffer {
    private final TypedImperativeAggregate function;

    OfObject(TypedImperativeAggregate function) {
      this.function = function;
    }

    public Object create() {
      return function.createAggregationBuffer();
    }

    public Object update(Object buffer, InternalRow row) {
      return function.update(buffer, row);
    }

    public byte[] serialize(Object buffer) {
      return function.serialize(buffer);
    }

    protected Object deserialize(byte[] bytes) {
      return function.deserialize(bytes);
    }

    protected Object mergeBuffers(Object one, Object other) {
      return function.merge(one, other);
    }

    protected Object result(Object buffer) {
      return function.eval(buffer);
    }
  }

  /** A buffer of several columns. */
  private abstract static class OfColumns extends AggregateBuffer {
    private final StructType schema;
    private transient UnsafeProjection projection;

    OfColumns(StructType schema) {
      this.schema = schema;
    }

    protected InternalRow empty() {
      return new SpecificInternalRow(schema);
    }

    public byte[] serialize(Object buffer) {
      if (projection == null) {
        projection = UnsafeProjection$.MODULE$.create(schema);
      }
      return projection.apply((InternalRow) buffer).copy().getBytes(); // the projection writes each row to the same bytes
    }

    protected Object deserialize(byte[] bytes) {
      UnsafeRow stored = new UnsafeRow(schema.size());
      stored.pointTo(bytes, bytes.length);
      InternalRow row = empty();
      for (int i = 0; i < schema.size(); i++) {
        row.update(i, stored.isNullAt(i) ? null : stored.get(i, schema.apply(i).dataType()));
      }
      return row;
    }
  }

  /** Columns that a function updates itself. */
  private static class OfRow extends OfColumns {
    private final ImperativeAggregate function;

    OfRow(ImperativeAggregate function) {
      super(function.aggBufferSchema());
      this.function = function.withNewMutableAggBufferOffset(0).withNewInputAggBufferOffset(0);
    }

    public Object create() {
      InternalRow row = empty();
      function.initialize(row);
      return row;
    }

    public Object update(Object buffer, InternalRow row) {
      function.update((InternalRow) buffer, row);
      return buffer;
    }

    protected Object mergeBuffers(Object one, Object other) {
      function.merge((InternalRow) one, (InternalRow) other);
      return one;
    }

    protected Object result(Object buffer) {
      return function.eval((InternalRow) buffer);
    }
  }

  /** Columns that are updated by expressions, over the columns and the function's arguments. */
  private static class OfExpressions extends OfColumns {
    private final Expression[] arguments;
    private final DeclarativeAggregate function;
    private final Seq argumentColumns;
    private transient MutableProjection initial;
    private transient MutableProjection updated;
    private transient MutableProjection merged;
    private transient MutableProjection value;

    OfExpressions(DeclarativeAggregate function) {
      super(function.aggBufferSchema());
      this.arguments = new Expression[function.children().size()];
      Object[] columns = new Object[arguments.length];
      for (int i = 0; i < arguments.length; i++) {
        arguments[i] = (Expression) function.children().apply(i);
        columns[i] =
            new AttributeReference(
                "a" + i,
                arguments[i].dataType(),
                arguments[i].nullable(),
                Metadata.empty(),
                NamedExpression$.MODULE$.newExprId(),
                (Seq) Nil$.MODULE$);
      }
      this.argumentColumns = list(columns);
      this.function = (DeclarativeAggregate) function.withNewChildren(argumentColumns);
    }

    private Seq buffer() {
      return function.aggBufferAttributes();
    }

    private InternalRow run(MutableProjection projection, InternalRow input) {
      return ((InternalRow) projection.apply(input)).copy();
    }

    public Object create() {
      if (initial == null) {
        initial = MutableProjection.create(function.initialValues(), (Seq) Nil$.MODULE$);
      }
      return run(initial, new GenericInternalRow(0));
    }

    public Object update(Object buffer, InternalRow row) {
      if (updated == null) {
        updated = MutableProjection.create(function.updateExpressions(), (Seq) buffer().appendedAll(argumentColumns));
      }
      GenericInternalRow values = new GenericInternalRow(arguments.length);
      for (int i = 0; i < arguments.length; i++) {
        values.update(i, arguments[i].eval(row));
      }
      return run(updated, new JoinedRow((InternalRow) buffer, values));
    }

    protected Object mergeBuffers(Object one, Object other) {
      if (merged == null) {
        Seq both = (Seq) buffer().appendedAll(function.inputAggBufferAttributes());
        merged = MutableProjection.create(function.mergeExpressions(), both);
      }
      return run(merged, new JoinedRow((InternalRow) one, (InternalRow) other));
    }

    protected Object result(Object buffer) {
      if (value == null) {
        value = MutableProjection.create(list(new Object[] {function.evaluateExpression()}), buffer());
      }
      InternalRow row = run(value, (InternalRow) buffer);
      return row.isNullAt(0) ? null : row.get(0, function.dataType());
    }
  }
}
