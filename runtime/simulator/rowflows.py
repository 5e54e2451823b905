"""Operators through which whole rows pass or not: the first row of each key, and the first rows of all.

Rows have the columns of `EVENT`, whichever operator or leaf they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from binshift.operators.contract import BIN_COLUMN, EXPIRY_SPACE, KEYLESS_BIN, STATE_SPACE
from binshift.operators.deduplicate import Deduplicate, Retention
from binshift.operators.expiry import EXPIRY_COLUMN, expiry_bytes
from binshift.operators.limit import COUNTER, Limit
from binshift.rows import RowCodec
from simulator.flows import Key, Packed, Row, State, bin_of, keys_batch, union

EVENT = pa.schema([("key", pa.string()), ("value", pa.int64()), ("time", pa.int64())])
"""Key, value, and event time in milliseconds, of which each may be null."""


@dataclass(frozen=True)
class Distinct:
    """The first row of each key.

    Attributes:
        keys: the columns that identify duplicates.
        timed: whether rows have an event time, and can be late.
        within_ms: how long the first row of a key holds back others, in milliseconds of event time; None: forever, or, if the time is
            among the keys, until the watermark has reached it.
        name: see `Flow`.
    """

    keys: tuple[str, ...] = ("key",)
    timed: bool = True
    within_ms: int | None = None
    name: str = "distinct"
    delay_ms: ClassVar[int | None] = None
    time: ClassVar[str] = "time"
    holds_back_ms: ClassVar[int] = 0

    @property
    def retention(self) -> Retention:
        """How long a key is kept."""
        if self.within_ms is not None:
            return Retention.WATERMARK
        return Retention.EVENT_TIME if self.timed and self.time in self.keys else Retention.FOREVER

    @property
    def key_schema(self) -> pa.Schema:
        """The key columns."""
        return pa.schema([EVENT.field(name) for name in self.keys])

    @property
    def operator(self) -> Deduplicate:
        """The real operator."""
        return Deduplicate(self.key_schema, EVENT, self.timed, self.retention, self.within_ms or 0)

    def key_of(self, row: Row) -> Key:
        """The key of a row."""
        return tuple(row[name] for name in self.keys)

    def arranged(self, inputs: Sequence[Sequence[Row]], bins: int) -> pa.RecordBatch:
        """All rows by bin, key and input order."""
        rows = sorted(union(inputs), key=lambda row: (bin_of(self.key_of(row), bins), repr(self.key_of(row))))
        found = pa.array([bin_of(self.key_of(row), bins) for row in rows], pa.int32())
        columns = {BIN_COLUMN: found, **event_columns(rows)}
        if self.timed:
            columns[EXPIRY_COLUMN] = columns["time"]
        return pa.RecordBatch.from_pydict(columns)

    def packed(self, state: State, bins: int) -> Packed:
        """A row for each key, and one in the index if it expires."""
        codes = RowCodec(self.key_schema).pack(keys_batch(self.key_schema, state)).to_pylist()
        found: Packed = {}
        for (key, kept), code in zip(state.items(), codes, strict=True):
            rows, until = found.setdefault(bin_of(key, bins), {}), kept["until"]
            rows[STATE_SPACE + code] = expiry_bytes(until) if self.retention is Retention.WATERMARK else b""
            if until is not None:
                rows[EXPIRY_SPACE + expiry_bytes(until) + code] = b""
        return found


@dataclass(frozen=True)
class First:
    """The first rows of all.

    Attributes:
        limit: their number.
        name: see `Flow`.
    """

    limit: int
    name: str = "first"
    delay_ms: ClassVar[int | None] = None
    time: ClassVar[str] = "time"
    holds_back_ms: ClassVar[int] = 0

    @property
    def operator(self) -> Limit:
        """The real operator."""
        return Limit(EVENT, self.limit)

    def arranged(self, inputs: Sequence[Sequence[Row]], bins: int) -> pa.RecordBatch:
        """All rows in their order, in one bin."""
        rows = union(inputs)
        return pa.RecordBatch.from_pydict(
            {BIN_COLUMN: pa.array([KEYLESS_BIN] * len(rows), pa.int32()), **event_columns(rows)}
        )

    def packed(self, state: State, bins: int) -> Packed:
        """The counter, once rows have passed."""
        if not state:
            return {}
        counter = COUNTER.pack_columns([pa.array([state[()]["rows"]], pa.int64())], 1)
        return {KEYLESS_BIN: {STATE_SPACE: counter[0].as_py()}}


def event_columns(rows: Sequence[Row]) -> dict[str, pa.Array]:
    """The columns of `EVENT`."""
    return {each.name: pa.array([row[each.name] for row in rows], each.type) for each in EVENT}
