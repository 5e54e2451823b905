"""`dropDuplicates` and `dropDuplicatesWithinWatermark`: the first row of each key passes, later ones do not.

The state of a key is one row, whose existence is what counts. F delivers an epoch's rows sorted by bin, key columns and source
order, so that the rows of a key follow one another and the first of them is the first in the source. Late rows are dropped
before that: the first row that is on time passes. The rules are those of Spark's ``StreamingDeduplicateExec`` and
``StreamingDeduplicateWithinWatermarkExec``:

- A row is late if its input has an event time, among the keys or not, at or before the watermark of the previous epoch.
- States end if the event time is among the keys, or by the delay of the watermark: see `Retention`. They end after the rows of
  an epoch, so that a state that ends in an epoch still holds back that epoch's rows.

It must never pass a row whose key has a stored state, nor read a key twice.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.invariants import invariant
from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN, STATE_SPACE, EpochContext, EpochState, prefixed
from binshift.operators.expiry import EXPIRY_COLUMN, due, expiry_keys, indexed, on_time, time_bytes
from binshift.operators.stored import DUMMY, EXPIRES, SINGLE_STORE, Form, StoredRows
from binshift.rows import RowCodec, of_type

DROPPED = "numDroppedDuplicateRows"
"""Spark's custom metric."""


class Retention(enum.Enum):
    """How long the state of a key is kept."""

    FOREVER = "forever"  # no event time among the keys
    EVENT_TIME = "event time"  # until the watermark reaches the event time, which is among the keys
    WATERMARK = (
        "watermark"  # until the watermark reaches the event time of the key's first row plus the watermark's delay
    )


@dataclass(frozen=True)
class Deduplicate:
    """Passes the first row of each key.

    The input columns are `BIN_COLUMN`, the columns of ``rows`` under their names, and with ``event_time`` also
    `EXPIRY_COLUMN`: each row's event time (for a window: its end) in milliseconds since 1970, rounded up, null if the row has
    none. Rows ascend by (bin, key columns, source order); at least the rows of a bin, and within it the rows of a key in
    source order, must follow one another. Output rows are in the order of the input.

    State of a key: an empty value or, with `Retention.WATERMARK`, the expiry in milliseconds as 8 bytes that sort by time; and
    one row of the expiry index, unless the state is kept forever.

    Attributes:
        keys: the columns that identify duplicates, some of ``rows``. NaN equals NaN, and -0.0 equals 0.0.
        rows: the columns of the output; names are unique.
        event_time: whether the input has an event time: rows can be late.
        retention: how long the state of a key is kept.
        delay_ms: with `Retention.WATERMARK`, the delay of the watermark in milliseconds, else 0.
    """

    keys: pa.Schema
    rows: pa.Schema
    event_time: bool = False
    retention: Retention = Retention.FOREVER
    delay_ms: int = 0

    def __post_init__(self) -> None:
        forever = self.retention is Retention.FOREVER
        invariant(self.event_time or forever, f"states are kept by {self.retention.value}, and rows have no event time")
        invariant(self.retention is Retention.WATERMARK or not self.delay_ms, "a delay where no state is kept by it")

    @property
    def output_schema(self) -> pa.Schema:
        """The input columns."""
        return self.rows

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """See `Keyed`."""
        return [rows.column(name) for name in self.keys.names]

    def stored(self) -> tuple[StoredRows, ...]:
        """A row for each key."""
        timed = self.retention is Retention.WATERMARK
        form, value = (Form.EXPIRY, EXPIRES) if timed else (Form.KEY, DUMMY)
        return (StoredRows(SINGLE_STORE, form, self.keys, pa.schema([value])),)

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store keys without state: ``rows`` has `BIN_COLUMN`, the keys and `EXPIRY_COLUMN`, when they end (never: null)."""
        columns = [of_type(rows.column(key.name), key.type) for key in self.keys]
        packed = RowCodec(self.keys).pack_columns(columns, rows.num_rows)
        self._put(rows.column(BIN_COLUMN), packed, rows.column(EXPIRY_COLUMN), state)

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Pass the first row of each new key, then end the states that the watermark has reached."""
        runs = _Runs(RowCodec(self.keys))
        for rows in batches:
            batch = on_time(rows, state, context) if self.event_time else rows
            state.counts[DROPPED] += batch.num_rows
            if batch.num_rows:
                first, packed = runs.first_rows(batch)
                for new in self._new(first, packed, state, context):
                    state.counts[DROPPED] -= new.num_rows
                    yield new
        if self.retention is not Retention.FOREVER:
            for bins, index_keys in due(state, context):
                gone = pa.nulls(len(index_keys), pa.binary())
                state.put(bins, index_keys, gone)
                state.put(bins, prefixed(STATE_SPACE, indexed(index_keys)), gone)

    def _new(
        self, first: pa.RecordBatch, packed: pa.BinaryArray, state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """The rows whose keys have no state; they get one. Each row is the first of its key in this epoch."""
        bins: IntArray = first.column(BIN_COLUMN).to_numpy()
        new = state.get(bins, prefixed(STATE_SPACE, packed)).is_null()
        if new.true_count:
            first, packed = first.filter(new), packed.filter(new)
            self._keep(first, packed, state, context)
            columns = [of_type(first.column(row.name), row.type) for row in self.rows]
            yield pa.RecordBatch.from_arrays(columns, schema=self.rows)

    def _keep(self, first: pa.RecordBatch, packed: pa.BinaryArray, state: EpochState, context: EpochContext) -> None:
        """Store the states of new keys, except for the ones that this epoch ends."""
        bins, nothing = first.column(BIN_COLUMN), pa.scalar(b"", pa.binary())
        if self.retention is Retention.FOREVER:
            state.put(bins, prefixed(STATE_SPACE, packed), pa.repeat(nothing, len(packed)))
            return
        expiry = first.column(EXPIRY_COLUMN)
        if self.retention is Retention.WATERMARK:
            expiry = pc.add(expiry.fill_null(0), self.delay_ms)  # Spark reads a missing event time as 0
        # Whether or not the watermark has moved: without an event time, a row's expiry can be long past.
        stays = pc.greater(expiry, context.watermark_ms).fill_null(True)
        bins, packed, expiry = (each.filter(stays) for each in (bins, packed, expiry))
        self._put(bins, packed, expiry, state)

    def _put(self, bins: pa.Int32Array, packed: pa.BinaryArray, expiry: pa.Int64Array, state: EpochState) -> None:
        nothing = pa.scalar(b"", pa.binary())
        stores_expiry = self.retention is Retention.WATERMARK
        values = time_bytes(expiry) if stores_expiry else pa.repeat(nothing, len(packed))
        state.put(bins, prefixed(STATE_SPACE, packed), values)
        indexes = expiry.is_valid()
        bins, packed, expiry = (each.filter(indexes) for each in (bins, packed, expiry))
        state.put(bins, expiry_keys(expiry, packed), pa.repeat(nothing, len(packed)))


class _Runs:
    """Finds the first of successive rows with the same key, from one batch to the next."""

    def __init__(self, codec: RowCodec) -> None:
        self._codec = codec
        self._last: pa.Scalar | None = None
        self._last_bin = -1

    def first_rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.BinaryArray]:
        """The first row of each key that the previous batch did not end with, and their packed keys."""
        columns = [of_type(batch.column(key.name), key.type) for key in self._codec.schema]
        packed = self._codec.pack_columns(columns, batch.num_rows)
        bins: IntArray = batch.column(BIN_COLUMN).to_numpy()
        invariant(bins[0] >= self._last_bin and bool((np.diff(bins) >= 0).all()), "rows are not sorted by bin")
        starts = pc.not_equal(packed[1:], packed[:-1]).to_numpy(zero_copy_only=False)
        first = pa.array(np.concatenate(([packed[0] != self._last], starts)))
        self._last, self._last_bin = packed[-1], int(bins[-1])
        return batch.filter(first), packed.filter(first)
