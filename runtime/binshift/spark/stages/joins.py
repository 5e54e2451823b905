"""A join of two streams as a stage: both sides go through one exchange by their keys, S joins them with the stored rows.

Spark's own analysis and helpers determine the keys, which conditions belong to one side, and when rows of a side can no
longer match (`StreamingJoinHelper`). The JVM evaluates every expression: keys, conditions of one side, and both sides of
comparisons between the sides, which S then compares. Other conditions are evaluated on the pairs: of an inner join behind S, of
the others before it, because S must know which rows have a match (see `binshift.operators.join_condition`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, LongType, StructField, StructType

from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN, Operator
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.join import LATE_COLUMN, MATCHES_COLUMN, SIDE_COLUMN, Join, JoinType
from binshift.operators.join_condition import GROUP_COLUMN, PAIR_COLUMN, PAIR_PREFIX, ConditionedJoin, FindPairs
from binshift.operators.stored import StoredRows
from binshift.spark.plan.catalyst import Catalyst
from binshift.spark.plan.routing_columns import Exchange, RouteColumns, bin_of
from binshift.spark.plan.stage import ORDER_COLUMN, Due, text_fingerprint
from binshift.spark.stages.joinplan import JoinPlan, Side


@dataclass
class JoinStage:
    """See `binshift.spark.plan.stage.Stage`.

    Attributes:
        plan: the compiled join.
        inputs: the frames of the two sides, for their types.
        bins: the number of bins.
        due: with the watermark, if rows of a side leave the state with it.
    """

    plan: JoinPlan
    inputs: Sequence[DataFrame]
    bins: int
    due: Due = field(init=False)
    _types: tuple[StructType, StructType, StructType] = field(init=False)
    _columns: RouteColumns = field(init=False)

    def __post_init__(self) -> None:
        left, right = (_own(side, frame).schema for side, frame in zip(self.plan.sides, self.inputs, strict=True))
        keys = self.inputs[0].select(*(key.alias(f"k{at}") for at, key in enumerate(self.plan.sides[0].keys))).schema
        self._types = StructType([StructField(key.name, key.dataType) for key in keys]), left, right
        self._columns = RouteColumns(bin_of([F.col(name) for name in keys.names], self.bins))
        ends = any(side.expiry is not None for side in self.plan.sides)
        self.due = Due.WATERMARK if ends else Due.NEVER

    @property
    def kind(self) -> str:
        """Spark's name."""
        return "symmetricHashJoin"

    @property
    def operator(self) -> Operator:
        """Joins rows."""
        return self.join if self.plan.condition is None else ConditionedJoin(self.join)

    @property
    def read_ahead(self) -> PairFilter | None:
        """Of the pairs of an outer or semi join, if they have a condition that only Spark can evaluate."""
        if self.plan.condition is None:
            return None
        types = {each.name: each.dataType for side in self._types[1:] for each in side}
        read = {name: types[name] for name in self.plan.condition.columns}
        return PairFilter(FindPairs(self.join, self.plan.condition.columns), self.plan.condition.holds, read)

    @property
    def join(self) -> Join:
        """What joins rows, apart from a condition that Spark evaluates."""
        zone = self.inputs[0].sparkSession.conf.get("spark.sql.session.timeZone")
        keys, left, right = (to_arrow_schema(each, timezone=zone) for each in self._types)
        widths = tuple(len(frame.columns) for frame in self.inputs)
        return Join(keys, left, right, self.plan.type, (widths[0], widths[1]), self.plan.comparisons)

    @property
    def merged_schema(self) -> StructType:
        """The columns of both sides, or of the left one for a semi join."""
        _, left, right = self._types
        own = list(left)[: len(self.inputs[0].columns)]
        other = [] if self.plan.type is JoinType.LEFT_SEMI else list(right)[: len(self.inputs[1].columns)]
        return StructType([StructField(each.name, each.dataType) for each in [*own, *other]])

    @property
    def holds_back_ms(self) -> int:
        """As long as rows of a side wait for the other."""
        return max(0, *(side.waits_ms for side in self.plan.sides))

    @property
    def stored(self) -> tuple[StoredRows, ...]:
        """The rows of each side; keys are named as in Spark."""
        keys = [f"field{at}" for at in range(len(self._types[0]))]
        compared = [[f"compared{at}" for at in range(len(side.compared))] for side in self.plan.sides]
        return tuple(
            rows.named(keys, [*frame.columns, *more])
            for rows, frame, more in zip(self.join.stored(), self.inputs, compared, strict=True)
        )

    @property
    def fingerprint(self) -> str:
        """Of the description."""
        return text_fingerprint(self.description)

    @property
    def description(self) -> str:
        """Keys, columns and conditions."""
        keys, left, right = (each.simpleString() for each in self._types)
        return "; ".join(
            (f"{self.plan.type.value} join by {keys}", f"left {left}", f"right {right}", *self.plan.conditions)
        )

    def route(self, inputs: Sequence[DataFrame], exchange: Exchange) -> DataFrame:
        """Both sides in one exchange, sorted by bin, side, key and source order."""
        left, right = (self.side_rows(number, frame) for number, frame in enumerate(inputs))
        rows = left.unionByName(right).withColumn(ORDER_COLUMN, F.monotonically_increasing_id())
        rows = exchange.apply(rows.select("*", *self._columns.added(exchange)))
        return rows.sortWithinPartitions(BIN_COLUMN, SIDE_COLUMN, *self._types[0].names, ORDER_COLUMN)

    def finish(self, merged: DataFrame) -> DataFrame:
        """The pairs for which the remaining condition holds."""
        return merged if self.plan.behind is None else merged.where(self.plan.behind)

    def side_rows(self, number: int, frame: DataFrame, more: Sequence[Column] = ()) -> DataFrame:
        """The rows of one side as S takes them, without bins, and with more columns."""
        side, other = self.plan.sides[number], self._types[2 - number]
        keys = [key.cast(type.dataType).alias(type.name) for key, type in zip(side.keys, self._types[0], strict=True)]
        never = F.lit(None).cast("long")
        times = (
            (never if side.late is None else side.late).alias(LATE_COLUMN),
            (never if side.expiry is None else side.expiry).alias(EXPIRY_COLUMN),
        )
        matches = F.coalesce(side.matches, F.lit(False)).alias(MATCHES_COLUMN)
        absent = [F.lit(None).cast(each.dataType).alias(each.name) for each in other]
        tag = F.lit(number).cast("byte").alias(SIDE_COLUMN)
        return frame.select(tag, *keys, *times, matches, *_columns(side), *absent, *more)


@dataclass(frozen=True)
class PairFilter:
    """Drops pairs before S; see `binshift.spark.plan.readahead.ReadAhead`.

    Attributes:
        operator: finds the pairs.
        holds: the condition.
        read: the columns that it reads, and their types.
    """

    operator: FindPairs
    holds: Column
    read: Mapping[str, DataType]

    def read_schema(self, rows: StructType) -> StructType:
        """The rows' columns, which are null in pairs, and the columns of pairs."""
        numbers = [StructField(name, LongType()) for name in (RECORDS_COLUMN, GROUP_COLUMN, PAIR_COLUMN)]
        read = [StructField(f"{PAIR_PREFIX}{name}", type) for name, type in self.read.items()]
        return StructType([*(StructField(each.name, each.dataType) for each in rows), *numbers, *read])

    def applied(self, read: DataFrame) -> DataFrame:
        """All rows, and the pairs for which the condition holds."""
        names = [name for name in read.columns if not name.startswith(PAIR_PREFIX)]
        return read.where(F.col(PAIR_COLUMN).isNull() | self.holds).select(*names)


def _own(side: Side, frame: DataFrame) -> DataFrame:
    return frame.select(*_columns(side))


def _columns(side: Side) -> list[Column]:
    """The columns of a side, and then what comparisons need of it, named by the side's letter."""
    given = [*side.attributes, *side.compared]
    return [column.alias(f"{side.letter}{at}") for at, column in enumerate(given)]


def compile_join(inputs: Sequence[DataFrame], node: Any, bins: int) -> JoinStage:
    """Compile Spark's analysed ``Join`` of two streams.

    Raises:
        Unsupported: the message names the condition, or the type of join.
    """
    return JoinStage(JoinPlan.of(Catalyst(inputs[0].sparkSession), node), inputs, bins)
