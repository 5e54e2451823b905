"""Aggregation by `session_window` as a stage: the JVM aggregates the rows of equal sessions, S merges sessions that overlap.

A row's own session begins at its time and ends after the gap; Spark's analysis has made a column of it below the aggregation.
The exchange is by the other keys, as sessions of one key must meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StructField, StructType

from binshift.operators.aggregate import OutputMode
from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN
from binshift.operators.session_codec import SESSION_END_COLUMN, SESSION_START_COLUMN
from binshift.operators.sessions import Sessions
from binshift.operators.stored import StoredRows
from binshift.spark.plan.catalyst import Catalyst
from binshift.spark.plan.routing_columns import PARTITION_COLUMN, Exchange, RouteColumns, bin_of
from binshift.spark.plan.stage import Due, text_fingerprint
from binshift.spark.stages.aggregateplan import AggregatePlan


@dataclass
class SessionStage:
    """See `binshift.spark.plan.stage.Stage`.

    Attributes:
        plan: the compiled aggregation; one of its keys is the session.
        session: that key's position.
        mode: append or complete.
        late: whether rows can be late: their event time has a watermark.
        bins: the number of bins.
        catalyst: converts times.
    """

    plan: AggregatePlan
    session: int
    mode: OutputMode
    late: bool
    bins: int
    catalyst: Catalyst
    read_ahead: ClassVar[None] = None
    _columns: RouteColumns = field(init=False)
    _keys: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._keys = [name for at, name in enumerate(self.plan.key_schema.names) if at != self.session]
        self._columns = RouteColumns(bin_of([F.col(name) for name in self._keys], self.bins))

    @property
    def kind(self) -> str:
        """Spark's name."""
        return "sessionWindowStateStoreSaveExec"

    @property
    def operator(self) -> Sessions:
        """Merges sessions."""
        keys = self.plan.key_schema.remove(self.session)
        return Sessions(keys, self.plan.buffer_schema, self.plan.merges, self.mode, expires=self.late)

    @property
    def merged_schema(self) -> StructType:
        """Keys, start and end of the session, buffers."""
        fields = {each.name: each for each in self.plan.merged_type}
        times = [StructField(name, LongType(), nullable=False) for name in (SESSION_START_COLUMN, SESSION_END_COLUMN)]
        return StructType(
            [*(fields[name] for name in self._keys), *times, *(fields[name] for name in self.plan.buffer_schema.names)]
        )

    @property
    def due(self) -> Due:
        """In append mode with the watermark."""
        return Due.WATERMARK if self.mode is OutputMode.APPEND else Due.NEVER

    @property
    def holds_back_ms(self) -> int:
        """Nothing."""
        return 0

    @property
    def stored(self) -> tuple[StoredRows, ...]:
        """A row for each session."""
        (rows,) = self.operator.stored(self.plan.key_schema.field(self.session).type.field(0).type)
        keys = [name for at, name in enumerate(self.plan.key_names) if at != self.session]
        own = list(rows.keys.names)[-1], rows.values.names[0]
        return (rows.named([*keys, own[0]], [own[1], *self.plan.buffer_names]),)

    @property
    def fingerprint(self) -> str:
        """Of the description."""
        return text_fingerprint(self.description)

    @property
    def description(self) -> str:
        """Keys, session, buffers, and how sessions end."""
        return "; ".join((*self.plan.description, f"sessions by key {self.session + 1}", f"{self.mode.value} mode"))

    def route(self, inputs: Sequence[DataFrame], exchange: Exchange) -> DataFrame:
        """Rows -> keys and inputs -> bin -> exchange -> one row for each key and session of rows, by key and time."""
        rows = self.plan.prepare(inputs[0])
        routed = exchange.apply(rows.select("*", *self._columns.added(exchange)))
        records = F.count(F.lit(1)).alias(RECORDS_COLUMN)
        partial = self.plan.partial(routed, [PARTITION_COLUMN, BIN_COLUMN], [records])
        return partial.select("*", *self.times(self._session.name)).sortWithinPartitions(
            BIN_COLUMN, *self._keys, SESSION_START_COLUMN
        )

    def times(self, session: str) -> list[Column]:
        """Start and end of a column with sessions, as S takes them."""
        parts = (("start", SESSION_START_COLUMN), ("end", SESSION_END_COLUMN))
        expressions = [(self.catalyst.expression(F.col(f"{session}.{part}")), name) for part, name in parts]
        return [self.catalyst.micros(each, self._time).alias(name) for each, name in expressions]

    def finish(self, merged: DataFrame) -> DataFrame:
        """The user's columns, computed by Catalyst."""
        session = F.struct(self._as_time(SESSION_START_COLUMN, "start"), self._as_time(SESSION_END_COLUMN, "end"))
        return self.plan.final(merged.withColumn(self._session.name, session))

    @property
    def _session(self) -> StructField:
        return self.plan.merged_type[self.session]

    @property
    def _time(self) -> DataType:
        return cast(StructType, self._session.dataType)["start"].dataType

    def _as_time(self, column: str, name: str) -> Column:
        return self.catalyst.time(self.catalyst.expression(F.col(column)), self._time).alias(name)
