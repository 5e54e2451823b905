"""Spark's aggregation buffers as binshift's, by aggregate function.

Spark keeps the buffers of all functions of an aggregation one after the other, in the order of the functions in the program.
binshift keeps what its rules merge (`binshift.spark.stages.buffers`), each once. Most functions have the same buffers in both; this
module has the others. It must never guess: names and types of Spark's buffers are compared with what its state has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from binshift.errors import Unsupported
from binshift.operators.merge import Merge
from binshift.operators.sums import DECIMAL_DIGITS_MAX
from binshift.spark.plan.catalyst import Catalyst, Expression, analyzed, children, class_name, sequence
from binshift.spark.plan.template import Templates
from binshift.spark.stages.aggregateplan import AggregatePlan
from binshift.spark.stages.buffers import Group
from binshift.spark.stages.decomposition import Decomposition, Found

AGGREGATE_NODES = ("HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec")

EVALUATED = ("CollectList", "CollectSet")
"""Functions whose buffers are bytes in Spark and lists here."""


@dataclass(frozen=True)
class SparkAggregate:
    """One function as Spark runs it.

    Attributes:
        function: after the optimiser, which computes some sums of decimals on their unscaled values.
        names: of its buffers.
    """

    function: Expression
    names: tuple[str, ...]


def buffer_columns(
    templates: Templates, rows: DataFrame, node: Any, plan: AggregatePlan, stored: StructType
) -> list[Column]:
    """binshift's buffers, in their order and under their names, over the columns ``v0``, ``v1``, ... of Spark's buffers.

    Args:
        templates: of the session.
        rows: the input of the aggregation.
        node: Spark's analysed aggregation.
        plan: the compiled one.
        stored: Spark's buffers, as its state has them.

    Raises:
        Unsupported: Spark has other buffers than the program's functions have.
    """
    parts = plan.parts
    assert parts is not None
    functions = _functions(templates, rows, node)
    names = [name for each in functions for name in each.names]
    found = list(_distinct(parts))
    if names != stored.names or len(found) != len(functions):
        raise Unsupported(
            f"the checkpoint has the buffers {', '.join(stored.names)}, and the program's aggregates have {', '.join(names)}: "
            "start the program that has written the checkpoint"
        )
    made: dict[str, tuple[Column, bool]] = {}
    at = 0
    catalyst = Catalyst(rows.sparkSession)
    for ours, theirs in zip(found, functions, strict=True):
        given = [f"v{at + number}" for number in range(len(theirs.names))]
        at += len(given)
        for name, column in _Conversion(catalyst, parts, ours, theirs, given).columns().items():
            if name not in made or not made[name][1]:
                made[name] = column
    types = {field.name: field.dataType for field in plan.merged_type}
    if not found:
        made = {name: (F.lit(1), True) for name in plan.buffer_schema.names}
    return [made[name][0].cast(types[name]).alias(name) for name in plan.buffer_schema.names]


@dataclass(frozen=True)
class _Conversion:
    """The buffers of one function.

    Attributes:
        catalyst: the session's trees.
        parts: names of binshift's buffers.
        ours: the function in the program.
        theirs: the function as Spark runs it.
        given: the columns of its buffers.
    """

    catalyst: Catalyst
    parts: Decomposition
    ours: Found
    theirs: SparkAggregate
    given: Sequence[str]

    def columns(self) -> dict[str, tuple[Column, bool]]:
        """By binshift's name, the buffer, and whether it is all that another function could need of it."""
        names = [name for group in self.ours.groups for name in self.parts.columns[group]]
        kind = class_name(self.ours.function)
        if not self.ours.slots:
            return {names[0]: (self._opaque(self.ours.groups[0]), True)}
        if kind in EVALUATED:
            lists = self.catalyst.expression(F.array(F.col(self.given[0])))
            value = self.catalyst.evaluated_buffers(self.theirs.function, lists)
            return {names[0]: (self.catalyst.column(value), True)}
        columns = [F.col(each) for each in self.given]
        if kind == "Sum" and len(names) == 2:
            total = self._sum(columns[0])
            counted = columns[0].isNotNull() if len(columns) == 1 else ~columns[1]
            return {names[0]: (total, False), names[1]: (F.when(counted, 1).otherwise(0), False)}
        if kind in ("Sum", "Average"):
            columns[0] = self._sum(columns[0])
        if kind == "Average":  # Spark begins with 0, and a sum of nothing is null here
            columns[0] = F.when(columns[1] > 0, columns[0])
        if len(columns) != len(names):
            raise Unsupported(
                f"{self.ours.label}: Spark has kept {len(columns)} buffers of it, {', '.join(self.theirs.names)}, which is not adopted"
            )
        return {name: (column, True) for name, column in zip(names, columns, strict=True)}

    def _opaque(self, group: Group) -> Column:
        """Bytes, as Spark has them in a shuffle."""
        if self.catalyst.is_a(self.ours.function, "aggregate.TypedImperativeAggregate"):
            packed = F.col(self.given[0])
        else:
            named = zip(self.given, self.theirs.names, strict=True)
            columns = F.struct(*(F.col(given).alias(name) for given, name in named))
            packed = self.catalyst.packed_buffer(self.ours.function, self.catalyst.expression(columns))
        return F.array(packed) if group.merge is Merge.CONCAT else packed

    def _sum(self, column: Column) -> Column:
        """A sum; of unscaled values, if Spark's optimiser has made it one of them."""
        inner = children(self.theirs.function)[0]
        if class_name(inner) != "UnscaledValue":
            return column
        type = self.catalyst.data_type(children(inner)[0])
        assert isinstance(type, DecimalType)
        precision = min(DECIMAL_DIGITS_MAX, type.precision + 10)
        if class_name(self.theirs.function) == "Average":
            column = F.round(column).cast("long")
        return self.catalyst.column(self.catalyst.decimal(self.catalyst.expression(column), precision, type.scale))


def _functions(templates: Templates, rows: DataFrame, node: Any) -> list[SparkAggregate]:
    """The functions in the order of Spark's buffers: those of its plan for one batch, which has the same parts as a stream's."""
    frame = templates.frame(node.withNewChildren(templates.scala_sequence([analyzed(rows)])))
    physical: Any = frame._jdf.queryExecution().sparkPlan()
    partial = next(each for each in reversed(_nodes(physical)) if class_name(each) in AGGREGATE_NODES)
    functions = [each.aggregateFunction() for each in sequence(partial.aggregateExpressions())]
    return [
        SparkAggregate(each, tuple(str(one.name()) for one in sequence(each.aggBufferAttributes())))
        for each in functions
    ]


def _nodes(plan: Any) -> list[Any]:
    return [plan, *(node for child in sequence(plan.children()) for node in _nodes(child))]


def _distinct(parts: Decomposition) -> Sequence[Found]:
    """Each function once, as Spark has it; functions that are not deterministic are all different."""
    kept: list[Found] = []
    known: set[tuple[str, tuple[Group, ...]]] = set()
    for each in parts.found:
        key = class_name(each.function), each.groups
        if key not in known or not each.function.deterministic():
            kept.append(each)
        known.add(key)
    return kept
