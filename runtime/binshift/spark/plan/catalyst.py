"""The only access to Catalyst, Spark's expression trees: reads them, rebuilds them, and makes Columns of them.

This module owns all py4j calls into Catalyst for compiled queries, so that a new Spark version breaks one file. It walks
and rebuilds trees and does not know what they mean. It must never execute a plan: everything here is analysis, which works
on streaming frames as on batch frames.

Expressions are Java objects (`Any` to Python). They are immutable; a rebuilt tree is a new one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType, StructType

from binshift.spark.session.jvm import install

Expression: TypeAlias = Any
"""A `org.apache.spark.sql.catalyst.expressions.Expression` behind py4j."""


BATCH_TIMES = ("CurrentTimestamp", "CurrentDate", "LocalTimestamp")
"""Functions that Spark replaces by the batch's time in a stream; `now()` and `current_time()` are not among them."""


class Catalyst:
    """Expression trees of one session.

    Args:
        spark: a classic session (Spark Connect has no JVM to reach).

    Attributes:
        scala: makes a Scala sequence of a list.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = cast(Any, spark)._jvm
        self._sql: Any = self._jvm.org.apache.spark.sql
        self._converter: Any = getattr(self._sql.classic, "ColumnNodeToExpressionConverter$").__getattr__("MODULE$")
        self._columns: Any = self._sql.classic.ExpressionUtils
        self._attributes: Any = self._sql.catalyst.analysis.UnresolvedAttribute
        self.scala: Any = self._jvm.PythonUtils.toSeq
        self._is_a: dict[tuple[str, str], bool] = {}

    def expression(self, column: Column) -> Expression:
        """The tree of a Column, as the user wrote it: names and functions are not resolved yet."""
        return self._converter.apply(cast(Any, column)._jc.node())

    def column(self, expression: Expression) -> Column:
        """A Column that evaluates ``expression``."""
        return ClassicColumn(self._columns.column(expression))

    def attribute(self, name: str) -> Expression:
        """A reference by name, resolved in whatever frame the Column is used on."""
        return self._attributes.quoted(name)

    def not_null(self, expression: Expression) -> Expression:
        """``expression``, marked as never null (for the analyser; it is not checked)."""
        return self._sql.catalyst.expressions.KnownNotNull(expression)

    def micros(self, time: Expression, type: DataType) -> Column:
        """Microseconds since 1970 of a timestamp, with or without time zone, exactly as Spark stores it."""
        stored, long = self.java_type(type), self._sql.types.DataTypes.LongType
        return self.column(self._sql.catalyst.expressions.PreciseTimestampConversion(time, stored, long))

    def time(self, micros: Expression, type: DataType) -> Column:
        """The timestamp of these microseconds since 1970: the inverse of `micros`."""
        stored, long = self.java_type(type), self._sql.types.DataTypes.LongType
        return self.column(self._sql.catalyst.expressions.PreciseTimestampConversion(micros, long, stored))

    def java_type(self, type: DataType) -> Any:
        """A type as Catalyst has it."""
        return cast(Any, self._spark)._jsparkSession.parseDataType(type.json())

    def rebuild(self, expression: Expression, replace: Callable[[Expression], Expression | None]) -> Expression:
        """The tree with some subtrees replaced, from the root down; ``replace`` returns None to descend further."""
        found = replace(expression)
        if found is not None:
            return found
        kind = class_name(expression)
        if kind == "ColumnNodeExpression":  # the tree of a Column inside, for example, a Python function's call
            return self.rebuild(self._converter.apply(expression.node()), replace)
        if kind == "With":
            return self.rebuild(self._inlined(expression), replace)
        before = children(expression)
        after = [self.rebuild(child, replace) for child in before]
        if all(a is b for a, b in zip(before, after, strict=True)):
            return expression
        return expression.withNewChildren(self.scala(after))

    def _inlined(self, expression: Expression) -> Expression:
        """``With(child, definitions)`` without the shared definitions: Spark expects them resolved, and rebuilt ones are not."""
        shared = {str(found.id()): found.child() for found in sequence(expression.defs())}

        def definition(node: Expression) -> Expression | None:
            return shared.get(str(node.id())) if class_name(node) == "CommonExpressionRef" else None

        return self.rebuild(expression.child(), definition)

    def equi_join(self, join: Any) -> tuple[list[Expression], list[Expression], Expression | None] | None:
        """The keys of both sides of an analysed ``Join``, by Spark's own pattern, and the rest of its condition; None without keys."""
        if join.condition().isDefined():
            # A BETWEEN is one condition with a shared definition until that is put in its place.
            whole = self._jvm.scala.Option.apply(self.rebuild(join.condition().get(), lambda node: None))
            join = join.copy(join.left(), join.right(), join.joinType(), whole, join.hint())
        extract = getattr(self._sql.catalyst.planning, "ExtractEquiJoinKeys$").__getattr__("MODULE$")
        found = extract.unapply(join)
        if not found.isDefined():
            return None
        parts = found.get()
        rest = parts._4()
        return sequence(parts._2()), sequence(parts._3()), rest.get() if rest.isDefined() else None

    def state_watermark(
        self, own: Sequence[Expression], other: Sequence[Expression], condition: Expression, watermark_ms: int
    ) -> int | None:
        """The event time (milliseconds) up to which rows of one side of a join can match no later row; None: all can.

        Spark's `StreamingJoinHelper` finds it, from the condition and the watermark of the other side.
        """
        helper = getattr(self._sql.catalyst.analysis, "StreamingJoinHelper$").__getattr__("MODULE$")
        sets = getattr(self._sql.catalyst.expressions, "AttributeSet$").__getattr__("MODULE$")
        own_set, other_set = (sets.apply(self.scala(list(each))) for each in (own, other))
        some = self._jvm.scala.Option.apply
        found = helper.getStateValueWatermark(own_set, other_set, some(condition), some(watermark_ms))
        return int(found.get()) if found.isDefined() else None

    def buffered(self, function: Expression, where: Expression | None) -> Column:
        """The aggregate that returns the buffer of an aggregate function as bytes, over the rows ``where`` a condition holds."""
        filter = self._jvm.scala.Option.apply(where)
        return self.column(install(self._spark).bridge.buffered(function, filter))

    def merged_buffers(self, function: Expression, one: Expression, other: Expression) -> Column:
        """Two columns of buffers of a resolved aggregate function as one, by Spark's code; nulls are no buffers."""
        return self.column(install(self._spark).bridge.merged(function, one, other))

    def evaluated_buffers(self, function: Expression, buffers: Expression) -> Expression:
        """The value of a resolved aggregate function for each list of its buffers."""
        return install(self._spark).bridge.evaluated(function, buffers)

    def packed_buffer(self, function: Expression, columns: Expression) -> Column:
        """A buffer of a resolved aggregate function as bytes, from a struct of its columns."""
        return self.column(install(self._spark).bridge.packed(function, columns))

    def decimal(self, unscaled: Expression, precision: int, scale: int) -> Expression:
        """The decimal with this unscaled value, a long."""
        return self._sql.catalyst.expressions.MakeDecimal(unscaled, precision, scale)

    def asks_for_time(self, tree: Any) -> bool:
        """Whether a plan or an expression contains the current time."""
        patterns = getattr(self._sql.catalyst.trees, "TreePattern$").__getattr__("MODULE$")
        return bool(tree.containsPattern(patterns.CURRENT_LIKE()))

    def batch_time(self, expression: Expression) -> Expression:
        """The tree with the current time as a stream has it: a value of the batch, which Spark treats as non-deterministic."""
        made, zone = self._sql.catalyst.expressions.CurrentBatchTimestamp, self._jvm.scala.Option.apply("UTC")

        def replace(node: Expression) -> Expression | None:
            return made(0, node.dataType(), zone) if class_name(node) in BATCH_TIMES else None

        return self.rebuild(expression, replace)

    def is_a(self, expression: Expression, interface: str) -> bool:
        """Whether the expression's class extends ``interface``, a class within Catalyst's expressions package."""
        key = class_name(expression), interface
        if key not in self._is_a:
            name = f"org.apache.spark.sql.catalyst.expressions.{interface}"
            found = self._jvm.org.apache.spark.util.Utils.classForName(name, False, False)
            self._is_a[key] = bool(found.isInstance(expression))
        return self._is_a[key]

    def data_type(self, expression: Expression) -> DataType:
        """The type of a resolved expression."""
        struct = self._sql.types.StructType().add("x", expression.dataType())
        return StructType.fromJson(json.loads(struct.json()))[0].dataType


def analyzed(frame: DataFrame) -> Any:
    """The analysed logical plan of a frame: every name and type found, nothing optimised."""
    return cast(Any, frame)._jdf.queryExecution().analyzed()


def optimized(frame: DataFrame) -> Any:
    """The logical plan of a frame after Spark's optimiser."""
    return cast(Any, frame)._jdf.queryExecution().optimizedPlan()


def contains(plan: Any, names: Sequence[str]) -> bool:
    """Whether a plan has a node of one of these classes."""
    return class_name(plan) in names or any(contains(each, names) for each in children(plan))


def children(expression: Expression) -> list[Expression]:
    """The direct subtrees, in order."""
    return sequence(expression.children())


def sequence(scala: Any) -> list[Any]:
    """A Scala Seq as a list."""
    return [scala.apply(i) for i in range(scala.size())]


def class_name(expression: Expression) -> str:
    """The simple name of the expression's Java class."""
    return str(expression.getClass().getSimpleName())
