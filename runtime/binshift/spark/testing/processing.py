"""A processor's operator and its input, made without Spark: as the stage of a query compiles the one, and F delivers the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyspark import cloudpickle
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils
from pyspark.sql.types import StructType

from binshift.model import Bin
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.processor.evolution import History, Rules, evolve, variables_of
from binshift.operators.processor.operator import KEY_PREFIX, ROW_PREFIX, StatefulProcessing, TimeMode
from binshift.rows import RowCodec
from binshift.spark.stages.definitions import defined
from binshift.spark.tasks.frame_parts import FrameConf
from binshift.spark.tasks.processor_calls import PickledProcessor
from binshift.spark.tasks.processor_frames import FrameFormat
from binshift.spark.tasks.processor_rows import RowFormat
from binshift.spark.testing.ddl import parse

FRAMES = FrameConf("UTC")
"""Spark's defaults."""

HASH_SEED = 42


@dataclass(frozen=True)
class Processing:
    """What a query does with its rows.

    Attributes:
        rows: the columns of the input.
        keys: the names of the grouping columns among them.
        output: the columns of the output.
        time: the mode.
        frames: whether the processor gets and returns frames of pandas.
        event_time: the column by which rows are late; None without one.
        rules: of changes to schemas.
    """

    rows: StructType
    keys: tuple[str, ...]
    output: StructType
    time: TimeMode
    frames: bool = False
    event_time: str | None = None
    rules: Rules = field(default_factory=Rules)

    @property
    def key_schema(self) -> StructType:
        """The grouping columns."""
        return StructType([self.rows[name] for name in self.keys])

    def operator(
        self, processor: StatefulProcessor, known: Sequence[History]
    ) -> tuple[StatefulProcessing, tuple[History, ...]]:
        """The operator of a processor that continues with known histories, and what these become.

        Raises:
            IncompatibleState: the processor cannot continue.
            Exception: what ``init`` raises.
        """
        command = command_of(processor, self.time)
        found = defined(command, self.time, parse)
        histories = evolve(known, found.wanted, found.deleted, self.rules)
        names, output = self.rows.names, self.output
        format = FrameFormat(names, [], output, FRAMES) if self.frames else RowFormat(names, [], output)
        user = PickledProcessor(command, self.time, self.key_schema, format, found.parsed)
        made = StatefulProcessing(
            user,
            numbered(KEY_PREFIX, self.key_schema),
            numbered(ROW_PREFIX, self.rows),
            to_arrow_schema(output, timezone="UTC"),
            variables_of(histories, found.wanted),
            self.time,
            late_rows=self.event_time is not None,
        )
        return made, histories

    def routed(self, rows: Sequence[Any], bins: int) -> pa.RecordBatch:
        """Rows as F delivers them: with their bins, by bin, key and order."""
        columns = self._columns(rows)
        by_name = dict(zip(self.rows.names, columns, strict=True))
        keys = [by_name[name] for name in self.keys]
        packed = RowCodec(numbered(KEY_PREFIX, self.key_schema)).pack_columns(keys, len(rows))
        found = pa.array([bin_of(each, bins) for each in packed.to_pylist()], pa.int32())
        order = np.array(
            sorted(range(len(rows)), key=lambda at: (found[at].as_py(), packed[at].as_py())), dtype=np.int32
        )
        names, made = [BIN_COLUMN], [found]
        if self.event_time is not None:
            names.append(EXPIRY_COLUMN)
            made.append(millis(by_name[self.event_time]))
        names += [*numbered(KEY_PREFIX, self.key_schema).names, *numbered(ROW_PREFIX, self.rows).names]
        return pa.RecordBatch.from_arrays([*made, *keys, *columns], names=names).take(pa.array(order))

    def bin_of_key(self, key: Sequence[Any], bins: int) -> Bin:
        """The bin of a key."""
        schema = self.key_schema
        columns = _converted([tuple(key)], schema)
        return Bin(bin_of(RowCodec(numbered(KEY_PREFIX, schema)).pack_columns(columns, 1)[0].as_py(), bins))

    def newest_ms(self, rows: Sequence[Any]) -> int | None:
        """The newest event time of rows."""
        if self.event_time is None or not rows:
            return None
        at = self.rows.names.index(self.event_time)
        found: int | None = pc.max(millis(self._columns(rows)[at])).as_py()
        return found

    def _columns(self, rows: Sequence[Any]) -> list[pa.Array]:
        return _converted(rows, self.rows)


def bin_of(packed: bytes, bins: int) -> int:
    """The bin of a packed key. Spark's hash is of the values, so that the bin on a cluster is another one."""
    return xxhash.xxh64_intdigest(packed, seed=HASH_SEED) % bins


def command_of(processor: StatefulProcessor, time: TimeMode) -> bytes:
    """What PySpark puts into a plan."""
    function = TransformWithStateInPandasUdfUtils(processor, time.value).transformWithStateUDF
    pickled: bytes = cast(Any, cloudpickle).dumps((function, None))
    return pickled


def numbered(prefix: str, schema: StructType) -> pa.Schema:
    """Arrow's form of columns, which are named by a prefix and their numbers."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([pa.field(f"{prefix}{at}", each.type) for at, each in enumerate(arrow)])


def millis(times: pa.Array) -> pa.Array:
    """Event times as milliseconds since 1970: those of a timestamp, or whole numbers as they are."""
    if pa.types.is_timestamp(times.type):
        micros = times.cast(pa.int64())
        return pc.floor(pc.divide(micros.cast(pa.float64()), 1000)).cast(pa.int64())
    return times.cast(pa.int64())


def _converted(rows: Sequence[Any], schema: StructType) -> list[pa.Array]:
    arrow = to_arrow_schema(schema, timezone="UTC")
    if not rows:
        return [pa.nulls(0, each.type) for each in arrow]
    table = LocalDataToArrowConversion.convert(list(rows), schema, use_large_var_types=False)
    columns = (column.combine_chunks() for column in table.columns)
    return [each.cast(wanted.type) for each, wanted in zip(columns, arrow, strict=True)]
