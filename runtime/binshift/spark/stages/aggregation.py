"""`groupBy(...).agg(...)` as a stage: the JVM reduces an epoch's rows to one row per key before Python sees them.

The exchange puts all rows of a bin on one partition, so Spark's aggregation needs no second one: its second half runs in the same task
as S, right before it. Its first half runs before the exchange (`EarlyAggregation.java`), unless it needs the order of the rows; where keys do not
repeat, both are one behind it (`SingleAggregation.java`). S drops and counts late groups, by the watermark of the previous epoch, as in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from binshift.operators.add_stored import AddStored
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN, REDUCED_COLUMN
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.stored import StoredRows
from binshift.spark.plan.opaque import SparkMerge
from binshift.spark.plan.routing_columns import PARTITION_COLUMN, Exchange, RouteColumns, bin_of
from binshift.spark.plan.stage import Due
from binshift.spark.stages.aggregateplan import AggregatePlan
from binshift.spark.stages.keytypes import hashable


@dataclass
class AggregationStage:
    """See `binshift.spark.plan.stage.Stage`.

    Attributes:
        plan: the compiled aggregation.
        mode: the output mode.
        bins: the number of bins.
    """

    plan: AggregatePlan
    mode: OutputMode
    bins: int
    _columns: RouteColumns = field(init=False)
    _by: list[str] = field(init=False)

    def __post_init__(self) -> None:
        keys = [F.col(name) for name in self.plan.key_schema.names]
        # The key of a global aggregate is its bin: Spark would fold a literal away, and with it the exchange by worker.
        types = [each.dataType for each in self.plan.merged_type]
        hashed = [hashable(key, type) for key, type in zip(keys, types, strict=False)]
        bin = keys[0] if self.plan.keyless else bin_of(hashed, self.bins)
        expiry = [] if self.plan.event_time_key is None else [self.plan.event_time_key.alias(EXPIRY_COLUMN)]
        self._columns = RouteColumns(bin, expiry)
        self._by = [PARTITION_COLUMN, BIN_COLUMN, *([EXPIRY_COLUMN] if expiry else [])]

    @property
    def kind(self) -> str:
        """Spark's name."""
        return "stateStoreSave"

    @property
    def operator(self) -> Aggregate:
        """Merges buffers."""
        plan = self.plan
        expires = plan.event_time_key is not None
        return Aggregate(plan.key_schema, plan.buffer_schema, plan.merges, self.mode, expires, plan.keyless)

    @property
    def read_ahead(self) -> SparkMerge | None:
        """Of the buffers that only Spark understands."""
        plan, names = self.plan, tuple(self.plan.merged_by_spark)
        return (
            SparkMerge(AddStored(plan.key_schema, plan.buffer_schema, names), plan.merged_by_spark) if names else None
        )

    @property
    def merged_schema(self) -> StructType:
        """Keys and buffers."""
        return self.plan.merged_type

    @property
    def due(self) -> Due:
        """In every mode but the one that keeps all groups with the watermark."""
        return Due.NEVER if self.mode is OutputMode.COMPLETE else Due.WATERMARK

    @property
    def holds_back_ms(self) -> int:
        """Nothing."""
        return 0

    @property
    def stored(self) -> tuple[StoredRows, ...]:
        """A row for each group."""
        keys = () if self.plan.keyless else self.plan.key_names
        return tuple(each.named(keys, self.plan.buffer_names) for each in self.operator.stored())

    @property
    def fingerprint(self) -> str:
        """Of keys, aggregates and their types, and of how groups are closed, which is part of the state."""
        return f"{self.plan.fingerprint}-{self.mode.value}"

    @property
    def description(self) -> str:
        """The same in readable form."""
        return "; ".join((*self.plan.description, f"{self.mode.value} mode"))

    def route(self, inputs: Sequence[DataFrame], exchange: Exchange) -> DataFrame:
        """Rows -> keys and inputs -> bin -> one row per key and task -> exchange -> one row per key."""
        rows = self.plan.prepare(inputs[0]).select("*", *self._columns.added(exchange))
        records = F.count(F.lit(1)).alias(RECORDS_COLUMN if self.plan.ordered else REDUCED_COLUMN)
        return self.plan.partial(exchange.apply(rows), self._by, [records])

    def finish(self, merged: DataFrame) -> DataFrame:
        """The user's columns, computed by Catalyst."""
        return self.plan.final(merged)
