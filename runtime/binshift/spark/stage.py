"""A stateful operator as Catalyst sees it: what is done with rows before and after S.

A stage is compiled once, when the query starts, and builds the plan of each epoch from the epoch's rows and route:
`route` is F and the exchange (and whatever the JVM can do better than Python, such as partial aggregation or sorting),
`finish` turns what S returns into the user's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from binshift.model import Worker
from binshift.operators.contract import BIN_COLUMN, Operator
from binshift.operators.vectorised import VectorisedState
from binshift.routing import Route
from binshift.spark.routing_columns import RouteColumns, bin_of, exchanged

ORDER_COLUMN = "__order"
"""Position of a row in its source partition, with the partition in the high bits."""


class Stage(Protocol):
    """One stateful operator of a query."""

    @property
    def operator(self) -> Operator:
        """What S runs."""

    @property
    def merged_schema(self) -> StructType:
        """The columns S returns."""

    @property
    def fingerprint(self) -> str:
        """Equal for two stages if and only if one can continue with the other's state."""

    @property
    def description(self) -> str:
        """The fingerprint in readable form."""

    def route(self, batch: DataFrame, route: Route, workers: tuple[Worker, ...]) -> DataFrame:
        """The epoch's rows as S takes them: one partition per worker, in the order of ``workers``."""

    def finish(self, merged: DataFrame) -> DataFrame:
        """What S returned, in the user's columns."""


@dataclass
class VectorisedStage:
    """`applyInArrowWithState`: all rows of a key together, sorted in the JVM.

    Rows of one key are in the order of their source (partition, position), so that a deterministic function returns the same
    result when an epoch runs again.

    Attributes:
        operator: holds the user's function and the schemas.
        keys: the grouping columns, by their positions among the input columns.
        output: the columns the function returns.
        bins: the number of bins.
        fingerprint: see `Stage`.
        description: see `Stage`.
    """

    operator: VectorisedState
    keys: Sequence[int]
    output: StructType
    bins: int
    fingerprint: str
    description: str
    _keys: list[Column] = field(init=False)
    _columns: RouteColumns = field(init=False)

    def __post_init__(self) -> None:
        self._keys = [F.col(f"c{at}") for at in self.keys]
        order = F.monotonically_increasing_id().alias(ORDER_COLUMN)
        self._columns = RouteColumns(bin_of(self._keys, self.bins), [order])

    @property
    def merged_schema(self) -> StructType:
        """The function's output."""
        return self.output

    def route(self, batch: DataFrame, route: Route, workers: tuple[Worker, ...]) -> DataFrame:
        """See `Stage`."""
        added = self._columns.added(route, workers)
        rows = exchanged(numbered(batch).select(*added, "*"), len(workers))
        return rows.sortWithinPartitions(BIN_COLUMN, *self._keys, ORDER_COLUMN)

    def finish(self, merged: DataFrame) -> DataFrame:
        """Nothing to do."""
        return merged


def numbered(frame: DataFrame) -> DataFrame:
    """The frame with its columns renamed to ``c0``, ``c1``, ..., which are independent of the user's column names."""
    return frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))


def quoted(name: str) -> str:
    """A column name as Spark's parser accepts it, including dots.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"
