"""A vectorised state function with timeouts.

It gets the keys that time out in calls of their own, after all keys with rows. A timeout is a column of the state, so that the function
sees and returns it with the state of a key. What a function returns is all there is: a key that is returned without change keeps its
timeout, also one that has passed, and then times out again in the next epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState
from binshift.operators.expiry import on_time
from binshift.operators.grouping import bin_groups, of_types, one_batch, run_starts
from binshift.operators.timed_states import Changed, Stored, TimedStates, Timeout, adopt_states
from binshift.operators.vectorised import VectorisedState

TIMEOUT_COLUMN = "timeout"
"""The last column of the state: when the key times out, milliseconds since 1970; null: never."""

TIMED_OUT_COLUMN = "timed_out"
"""A column of the keys: whether the call is made because the key has timed out. It then has no rows."""

NOW_COLUMN = "now"
"""A column of the keys: what timeouts are compared with, the time of the batch or the watermark, milliseconds since 1970."""


@dataclass(frozen=True)
class TimedVectorisedState(VectorisedState):
    """Runs a `StateFunction` with the additional columns of this module.

    Attributes:
        timeout: when keys time out.
        late: whether rows can be late: the input has `EXPIRY_COLUMN`.
    """

    timeout: Timeout = Timeout.PROCESSING_TIME
    late: bool = False

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store the states of keys without one; see `adopt_states`."""
        adopt_states(self.keys, self.state, self.timeout, rows, state)

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Call the function once per group of bins, then for the keys that time out; keep the state that it returns."""
        states = TimedStates(self.keys, self.state, self.timeout, state, context)
        if self.late:
            batches = (on_time(batch, state, context) for batch in batches)
        for group in bin_groups(batches, self.group_bytes_max):
            rows = of_types(group.columns[-len(self.rows) :], self.rows).combine_chunks()
            keyed = one_batch(rows.select(self.keys.names), self.keys)
            packed = states.keys.pack(keyed)
            first = run_starts(packed)
            at = pa.array(first)
            bins: IntArray = group.column(BIN_COLUMN).to_numpy().take(first)
            yield from self._timed(states, bins, packed.take(at), keyed.take(at), rows)
        for bins, packed in states.timed_out():
            yield from self._timed(states, bins, packed, states.keys.unpack(packed), None)

    def _timed(
        self, states: TimedStates, bins: IntArray, packed: pa.BinaryArray, keys: pa.RecordBatch, rows: pa.Table | None
    ) -> Iterator[pa.RecordBatch]:
        """One call, for keys with rows or for keys that time out."""
        before = states.read(bins, packed)
        known = [*keys.filter(before.exists).columns, *before.values.filter(before.exists).columns]
        given = pa.Table.from_arrays([*known, before.timeouts.filter(before.exists)], schema=self._state_schema)
        shown = self._shown_keys(keys, states.threshold_ms, timed_out=rows is None)
        output, after = self._invoke(shown, self.rows.empty_table() if rows is None else rows, given)
        batch, placed = self._placed(packed, after)
        values = batch.select(self.state.names).take(placed)
        stored = Stored(values, placed.is_valid(), batch.column(batch.num_columns - 1).take(placed))
        states.write(bins, packed, before, Changed(stored, np.ones(len(packed), dtype=np.bool_)))
        yield from output.to_batches()

    def _shown_keys(self, keys: pa.RecordBatch, now_ms: int, *, timed_out: bool) -> pa.RecordBatch:
        count = keys.num_rows
        columns = [
            *keys.columns,
            pa.repeat(pa.scalar(timed_out), count),
            pa.repeat(pa.scalar(now_ms, pa.int64()), count),
        ]
        return pa.RecordBatch.from_arrays(columns, [*self.keys.names, TIMED_OUT_COLUMN, NOW_COLUMN])

    @property
    def _state_schema(self) -> pa.Schema:
        return pa.schema([*self.keys, *self.state, (TIMEOUT_COLUMN, pa.int64())])
