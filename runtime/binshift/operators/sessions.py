"""`session_window`: aggregation by key and session, where sessions of one key that overlap or touch become one.

F delivers the epoch's partial buffers with the session of each, and this module merges them among each other and with the
stored sessions of the same keys. As in Spark, late rows are dropped by their own session's end before they are merged, by the
watermark of the previous epoch. In append mode a session is emitted and removed by the first epoch whose watermark
reaches its end; rows of that epoch still count. In complete mode every epoch emits all sessions, and none ends.

State of a key: for each session a state row (packed key, 8 bytes of start: end and buffers); in append mode a row of the expiry
index; and one row in ``DIRECTORY_SPACE`` with the starts of its sessions.

It must never scan the state of a bin in append mode. The rows of a group of bins are in memory together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.invariants import invariant
from binshift.operators.aggregate import OutputMode
from binshift.operators.contract import BIN_COLUMN, NO_TIME, STATE_SPACE, EpochContext, EpochState, without_space
from binshift.operators.current import current
from binshift.operators.grouping import bin_groups
from binshift.operators.merge import MergeSpec
from binshift.operators.session_codec import SESSION_END_COLUMN, SESSION_START_COLUMN, SessionCodec
from binshift.operators.session_epoch import SessionEpoch
from binshift.operators.stored import SINGLE_STORE, Form, StoredRows

MICROSECONDS = pa.timestamp("us")


@dataclass(frozen=True)
class Sessions:
    """Aggregation by session.

    The input columns are `BIN_COLUMN`, the keys, `SESSION_START_COLUMN`, `SESSION_END_COLUMN` and the buffers, under their
    names. Rows ascend by bin, and the rows of a bin by key and session; a key may have any number of rows, also with
    overlapping sessions. F must not merge a late row into a session that is on time: either it aggregates rows of the same
    session only, or it drops late rows itself.

    Attributes:
        keys: the grouping columns without the session.
        buffers: the partial aggregates.
        merges: how buffers are merged.
        mode: append or complete; Spark has no update mode here.
        expires: whether the input has a watermark: rows can be late. Required in append mode.
        group_bytes_max: the input is cut into groups of whole bins of about this many bytes.
    """

    keys: pa.Schema
    buffers: pa.Schema
    merges: tuple[MergeSpec, ...]
    mode: OutputMode
    expires: bool = True
    group_bytes_max: int = 16 << 20

    def __post_init__(self) -> None:
        invariant(self.mode is not OutputMode.UPDATE, "sessions in update mode, which Spark does not have")
        invariant(self.expires or self.mode is OutputMode.COMPLETE, "sessions in append mode without a watermark")

    @property
    def output_schema(self) -> pa.Schema:
        """Keys, start and end of the session, merged buffers."""
        times = [pa.field(name, pa.int64()) for name in (SESSION_START_COLUMN, SESSION_END_COLUMN)]
        return pa.schema([*self.keys, *times, *self.buffers])

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """See `Keyed`."""
        return [rows.column(name) for name in self.keys.names]

    def stored(self, time: pa.DataType = MICROSECONDS) -> tuple[StoredRows, ...]:
        """A row for each session; ``time`` is the type of its times."""
        window = pa.field("session_window", pa.struct([("start", time), ("end", time)]))
        keys = pa.schema([*self.keys, ("sessionStartTime", time)])
        return (StoredRows(SINGLE_STORE, Form.SESSION, keys, pa.schema([window, *self.buffers])),)

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store the sessions of keys without state; ``rows`` is as the input of `run`, one row for each session."""
        codec = SessionCodec(self.keys, self.buffers, self.output_schema)
        SessionEpoch(codec, self.merges, self.mode is OutputMode.APPEND, state, NO_TIME).adopt(rows)

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Merge the rows into the stored sessions; emit the ones that end (append) or all (complete)."""
        codec = SessionCodec(self.keys, self.buffers, self.output_schema)
        epoch = SessionEpoch(codec, self.merges, self.mode is OutputMode.APPEND, state, context)
        last = -1
        for group in bin_groups(self._on_time(batches, state, context), self.group_bytes_max):
            bins = group.column(BIN_COLUMN).to_numpy()
            invariant(last < bins[0] and bool((np.diff(bins) >= 0).all()), "rows are not sorted by bin")
            last = int(bins[-1])
            yield from epoch.apply(group)
        if self.mode is OutputMode.APPEND:
            yield from epoch.evict()
            return
        for found in current(state, context.owned, STATE_SPACE):
            yield codec.emitted(without_space(found.column("key")), found.column("value"))

    def _on_time(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """The rows whose own sessions did not end in an earlier epoch; the others are counted."""
        for batch in batches:
            if not self.expires:
                yield batch
                continue
            late = pc.less_equal(batch.column(SESSION_END_COLUMN), context.previous_watermark_ms * 1000)
            state.rows_late += late.true_count
            yield batch.filter(pc.invert(late))
