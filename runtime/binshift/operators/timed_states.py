"""States with a timeout: their rows in the store, and the keys that time out, by the rules of Spark's ``applyInPandasWithState``.

A key has a value, a timeout, or both. Its row holds the columns of the value, whether there is one, and the timeout; a timeout has
a row in the expiry index, too, so that both move with their bin. A key times out in the first epoch whose *threshold* is later
than its timeout: the time of the batch, or the watermark. Its timeout then stands until a call changes it.

A key is written at most once in an epoch. One whose rows changed nothing although its timeout has passed is read again, as it
was before the epoch, when it times out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.binary import BoolArray
from binshift.model import IntArray
from binshift.operators.contract import (
    BIN_COLUMN,
    NO_TIME,
    STATE_SPACE,
    EpochContext,
    EpochState,
    Wake,
    prefixed,
)
from binshift.operators.expiry import due_before, expiry_keys, indexed, whole_bins
from binshift.rows import RowCodec, of_type

EXISTS_COLUMN, TIMEOUT_COLUMN = "__exists", "__timeout"
"""Columns of adopted states: whether there is a value, and when the key times out (milliseconds since 1970, null: never)."""

KEY_PREFIX, VALUE_PREFIX = "k", "v"
"""The columns of an adopted key and value are these and a number."""

KEYS_AT_ONCE = 8192
"""How many keys that time out are read at once, or those of one bin."""


class Timeout(enum.Enum):
    """When keys time out; the values are Spark's names."""

    NONE = "NoTimeout"
    PROCESSING_TIME = "ProcessingTimeTimeout"
    EVENT_TIME = "EventTimeTimeout"


@dataclass(frozen=True)
class Stored:
    """The states of some keys, in their order.

    Attributes:
        values: the columns of the values; nulls where there is none.
        exists: whether there is a value.
        timeouts: milliseconds since 1970; null: none.
    """

    values: pa.RecordBatch
    exists: pa.BooleanArray
    timeouts: pa.Int64Array


@dataclass(frozen=True)
class Changed:
    """What has become of some keys.

    Attributes:
        states: of all of them; a key with neither value nor timeout has no state.
        changed: the keys whose states are written; the others stay as they were.
    """

    states: Stored
    changed: BoolArray


class TimedStates:
    """The states of one epoch.

    Args:
        keys: the grouping columns.
        columns: of the values.
        timeout: when keys time out.
        state: of the epoch.
        context: of the epoch.
    """

    def __init__(
        self, keys: pa.Schema, columns: pa.Schema, timeout: Timeout, state: EpochState, context: EpochContext
    ) -> None:
        row = pa.schema([*columns, ("exists", pa.bool_()), ("timeout", pa.int64())])
        self.keys = RowCodec(keys)
        self._columns, self._rows = columns, RowCodec(row, canonical=False)
        self._timeout, self._state, self._context = timeout, state, context
        self._changed: list[pa.BinaryArray] = []
        if timeout is Timeout.PROCESSING_TIME:
            state.wake = Wake(state.times.expiries, after_ms=1)

    @property
    def threshold_ms(self) -> int:
        """Keys with earlier timeouts time out; milliseconds since 1970."""
        by_event = self._timeout is Timeout.EVENT_TIME
        return self._context.watermark_ms if by_event else self._context.batch_time_ms

    def read(self, bins: IntArray, packed: pa.BinaryArray) -> Stored:
        """The stored states of these keys."""
        rows = self._rows.unpack(self._state.get(bins, prefixed(STATE_SPACE, packed))).columns
        values = pa.RecordBatch.from_arrays(rows[:-2], schema=self._columns)
        return Stored(values, rows[-2].fill_null(False), rows[-1])

    def write(self, bins: IntArray, packed: pa.BinaryArray, before: Stored, after: Changed) -> None:
        """Store what has become of these keys.

        Args:
            bins: of the keys.
            packed: the keys; each once.
            before: as `read` returned it.
            after: of the same keys.
        """
        known = pc.or_(before.exists, before.timeouts.is_valid())
        kept = pc.or_(after.states.exists, after.states.timeouts.is_valid())
        # A key without state before and after is no change.
        at = np.flatnonzero(after.changed & pc.or_(known, kept).to_numpy(zero_copy_only=False))
        if not len(at):
            return
        chosen = pa.array(at)
        states, bins, packed, kept = after.states, bins[at], packed.take(chosen), kept.take(chosen)
        columns: Sequence[pa.Array] = [*states.values.columns, states.exists, states.timeouts]
        rows = self._rows.pack_columns([each.take(chosen) for each in columns], len(at))
        nothing = pa.scalar(None, pa.binary())
        self._state.put(bins, prefixed(STATE_SPACE, packed), pc.if_else(kept, rows, nothing))
        if self._timeout is not Timeout.NONE:
            self._index(bins, packed, before.timeouts.take(chosen), states.timeouts.take(chosen))

    def _index(self, bins: IntArray, packed: pa.BinaryArray, old: pa.Int64Array, new: pa.Int64Array) -> None:
        """Move the rows of the expiry index to the new timeouts."""
        differs = pc.invert(pc.equal(old, new).fill_null(False))
        for times, value in ((old, None), (new, b"")):
            moved = pc.and_(differs, times.is_valid())
            keys = expiry_keys(times.filter(moved), packed.filter(moved))
            self._state.put(
                bins[moved.to_numpy(zero_copy_only=False)], keys, pa.array([value] * len(keys), pa.binary())
            )
        passed = pc.less(old, self.threshold_ms).fill_null(False)
        self._changed.append(packed.filter(passed))

    def timed_out(self) -> Iterator[tuple[IntArray, pa.BinaryArray]]:
        """The keys that time out, with their bins, by bin and time; without the keys that this epoch has written so far."""
        if self._timeout is Timeout.NONE:
            return
        changed = pa.chunked_array(self._changed, pa.binary()).combine_chunks()
        due = due_before(self._state, self._context.owned, self.threshold_ms)
        for bins, index_keys in whole_bins(due, KEYS_AT_ONCE):
            packed = indexed(index_keys)
            others = pc.invert(pc.is_in(packed, value_set=changed))
            if others.true_count:
                yield bins[others.to_numpy(zero_copy_only=False)], packed.filter(others)


def adopt_states(
    keys: pa.Schema, columns: pa.Schema, timeout: Timeout, rows: pa.RecordBatch, state: EpochState
) -> None:
    """Store the states of keys without one.

    Args:
        keys: the grouping columns.
        columns: of the values.
        timeout: when keys time out.
        rows: with `BIN_COLUMN`, the keys, the columns of the values, and those of this module.
        state: gets them.
    """
    states = TimedStates(keys, columns, timeout, state, NO_TIME)
    packed = states.keys.pack_columns(
        [of_type(rows.column(f"{KEY_PREFIX}{at}"), each.type) for at, each in enumerate(keys)], rows.num_rows
    )
    values = [of_type(rows.column(f"{VALUE_PREFIX}{at}"), each.type) for at, each in enumerate(columns)]
    nothing = pa.RecordBatch.from_arrays([pa.nulls(rows.num_rows, each.type) for each in columns], schema=columns)
    never = pa.nulls(rows.num_rows, pa.int64())
    before = Stored(nothing, pa.repeat(pa.scalar(False), rows.num_rows), never)
    after = Stored(
        pa.RecordBatch.from_arrays(values, schema=columns), rows.column(EXISTS_COLUMN), rows.column(TIMEOUT_COLUMN)
    )
    changed = Changed(after, np.ones(rows.num_rows, dtype=np.bool_))
    states.write(rows.column(BIN_COLUMN).to_numpy(), packed, before, changed)
