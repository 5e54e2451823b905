"""A stateful operator as Catalyst sees it: what is done with rows before and after S.

A stage is compiled once, when the query starts, and builds plans from its input frames and a route:
`route` is F and the exchange (and whatever the JVM can do better than Python, such as partial aggregation or sorting),
`finish` turns what S returns into the user's columns.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from binshift.operators.contract import BIN_COLUMN, Operator
from binshift.operators.stored import StoredRows
from binshift.spark.plan.readahead import ReadAhead
from binshift.spark.plan.routing_columns import Exchange, RouteColumns, bin_of

ORDER_COLUMN = "__order"
"""Position of a row in its source partition, with the partition in the high bits."""


class Due(enum.Enum):
    """What makes an epoch without input due: by Spark's rule, whether or not there is state for it to end."""

    NEVER = enum.auto()
    WATERMARK = enum.auto()
    """An advance of the watermark."""
    CLOCK = enum.auto()
    """The earliest timer."""


class Stage(Protocol):
    """One stateful operator of a query."""

    @property
    def kind(self) -> str:
        """Spark's name of the operator, as in the progress of its queries."""

    @property
    def operator(self) -> Operator:
        """What S runs."""

    @property
    def bins(self) -> int:
        """The number of bins."""

    @property
    def merged_schema(self) -> StructType:
        """The columns S returns."""

    @property
    def fingerprint(self) -> str:
        """Equal for two stages if and only if one can continue with the other's state."""

    @property
    def description(self) -> str:
        """The fingerprint in readable form."""

    @property
    def stored(self) -> tuple[StoredRows, ...]:
        """The rows that the operator keeps, with the user's names; empty if they are not described."""

    @property
    def due(self) -> Due:
        """When an epoch without input is due."""

    @property
    def holds_back_ms(self) -> int:
        """How much older than the watermark its rows can be, in milliseconds, if its input is on time."""
        return 0

    @property
    def read_ahead(self) -> ReadAhead | None:
        """What Spark computes from the state before S, in the same task; None if there is nothing."""

    def route(self, inputs: Sequence[DataFrame], exchange: Exchange) -> DataFrame:
        """The rows of its inputs as S takes them, in the partitions of an exchange."""

    def finish(self, merged: DataFrame) -> DataFrame:
        """What S returned, in the user's columns."""


@dataclass
class RowsStage:
    """An operator that sees whole rows, those of a key together, sorted in the JVM.

    Rows of one key are in the order of their source (partition, position), so that a deterministic operator returns the same
    result when an epoch runs again. The columns are `BIN_COLUMN`, `ORDER_COLUMN`, the further ones and, last, the input's as
    ``c0``, ``c1``, ....

    Attributes:
        kind: see `Stage`.
        operator: what S runs.
        keys: the key columns, by their positions among the input columns; none: all rows are in one bin.
        output: the columns the operator returns.
        bins: the number of bins.
        description: what the state is, and its layout: see `Stage.fingerprint`.
        further: other columns for the operator, over the numbered ones.
        due: see `Stage`.
        stored: see `Stage`.
    """

    kind: str
    operator: Operator
    keys: Sequence[int]
    output: StructType
    bins: int
    description: str
    further: Sequence[Column] = ()
    due: Due = Due.NEVER
    holds_back_ms: int = 0
    stored: tuple[StoredRows, ...] = ()
    read_ahead: ClassVar[None] = None
    _keys: list[Column] = field(init=False)
    _columns: RouteColumns = field(init=False)

    def __post_init__(self) -> None:
        self._keys = [F.col(f"c{at}") for at in self.keys]
        order = F.monotonically_increasing_id().alias(ORDER_COLUMN)
        self._columns = RouteColumns(bin_of(self._keys, self.bins), [order, *self.further])

    @property
    def merged_schema(self) -> StructType:
        """The operator's output."""
        return self.output

    @property
    def fingerprint(self) -> str:
        """Of the description."""
        return text_fingerprint(self.description)

    def route(self, inputs: Sequence[DataFrame], exchange: Exchange) -> DataFrame:
        """See `Stage`."""
        rows = exchange.apply(numbered(inputs[0]).select(*self._columns.added(exchange), "*"))
        return rows.sortWithinPartitions(BIN_COLUMN, *self._keys, ORDER_COLUMN)

    def finish(self, merged: DataFrame) -> DataFrame:
        """Nothing to do."""
        return merged


def text_fingerprint(description: str) -> str:
    """A short form of a description: 32 hexadecimal digits."""
    return hashlib.blake2b(description.encode(), digest_size=16).hexdigest()


def numbered_schema(schema: StructType) -> StructType:
    """The schema of `numbered` frames."""
    return StructType([StructField(f"c{at}", each.dataType, each.nullable) for at, each in enumerate(schema)])


def arrow_schema(spark: SparkSession, schema: StructType) -> pa.Schema:
    """The schema in Arrow, with the time zone of the session."""
    return to_arrow_schema(schema, timezone=spark.conf.get("spark.sql.session.timeZone"))


def numbered(frame: DataFrame) -> DataFrame:
    """The frame with its columns renamed to ``c0``, ``c1``, ..., which are independent of the user's column names."""
    return frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))


def selected(frame: DataFrame, columns: Sequence[int] | None) -> DataFrame:
    """The columns at some positions, whatever their names are; None: the frame as it is."""
    return frame if columns is None else numbered(frame).select(*(f"c{at}" for at in columns))
