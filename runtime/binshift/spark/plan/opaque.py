"""Aggregates whose buffers only Spark understands: Spark's own code updates, merges and evaluates them.

To binshift such a buffer is bytes. It covers every aggregate function and type that Spark takes on a stream and that
`buffers` has no rule for: percentiles, sketches, estimates, joined strings, registered aggregators, collated strings, ....
The price is a second way through Python in each epoch, which reads the stored buffers before Spark merges them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from binshift.errors import Unsupported
from binshift.operators.add_stored import STORED_PREFIX, AddStored
from binshift.spark.plan.catalyst import Catalyst, Expression, children, class_name


@dataclass(frozen=True)
class Opaque:
    """One such aggregate.

    Attributes:
        catalyst: the session's trees.
        function: the resolved function.
        text: what it computes, over the prepared rows.
        partial: the aggregate that returns the buffer, or a list with only that buffer, over the prepared rows.
        listed: whether buffers are kept in lists, which Spark merges only to evaluate them.
    """

    catalyst: Catalyst
    function: Expression
    text: str
    partial: Column
    listed: bool

    @classmethod
    def of(
        cls,
        catalyst: Catalyst,
        expression: Expression,
        function: Expression,
        input: Callable[[Expression], str],
        *,
        listed: bool,
    ) -> Opaque:
        """The parts of an aggregate expression.

        Args:
            catalyst: the session's trees.
            expression: as Spark resolved it.
            function: its function, which Spark may have replaced by another.
            input: makes a column of the prepared rows of an expression, and returns its name.
            listed: whether buffers are kept in lists.

        Raises:
            Unsupported: a function written in Python, which Spark does not run on streams.
        """
        if not any(catalyst.is_a(function, f"aggregate.{each}Aggregate") for each in ("Imperative", "Declarative")):
            raise Unsupported(
                f"{expression.sql()} is not an aggregate that Spark runs on a stream; use applyInPandasWithState with "
                "binshift.vectorised"
            )

        def read(argument: Expression) -> Expression:
            if class_name(argument) == "SortOrder":
                return argument.withNewChildren(catalyst.scala([read(each) for each in children(argument)]))
            return argument if argument.foldable() else catalyst.attribute(input(argument))

        over = function.withNewChildren(catalyst.scala([read(each) for each in children(function)]))
        where = catalyst.attribute(input(expression.filter().get())) if expression.filter().isDefined() else None
        text = str(over.sql()) if where is None else f"{over.sql()} FILTER (WHERE {where.sql()})"
        partial = catalyst.buffered(over, where)
        return cls(catalyst, function, text, F.array(partial) if listed else partial, listed)

    def merged(self, stored: str, new: str) -> Column:
        """A column of stored buffers merged with one of new buffers."""
        return self.catalyst.merged_buffers(
            self.function, self.catalyst.attribute(stored), self.catalyst.attribute(new)
        )

    def value(self, name: str) -> Expression:
        """The aggregate's value, from its column in the state."""
        lists = F.col(name) if self.listed else F.array(F.col(name))
        return self.catalyst.evaluated_buffers(self.function, self.catalyst.expression(lists))


@dataclass(frozen=True)
class SparkMerge:
    """What Spark does between the exchange and S: it merges new buffers with stored ones, which are added to the rows before.

    Attributes:
        operator: adds the stored buffers.
        columns: by buffer, the merge.
    """

    operator: AddStored
    columns: Mapping[str, Column]

    def read_schema(self, rows: StructType) -> StructType:
        """See `binshift.spark.plan.readahead.ReadAhead`."""
        stored = [StructField(f"{STORED_PREFIX}{name}", BinaryType()) for name in self.columns]
        return StructType([*rows, *stored])

    def applied(self, read: DataFrame) -> DataFrame:
        """See `binshift.spark.plan.readahead.ReadAhead`."""
        names = [name for name in read.columns if not name.startswith(STORED_PREFIX)]
        return read.select(*(self.columns[name].alias(name) if name in self.columns else name for name in names))
