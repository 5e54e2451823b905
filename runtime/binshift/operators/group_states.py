"""A function with a state and a timeout for each key, called for many keys at once: ``applyInPandasWithState``.

Rows arrive as in `binshift.operators.vectorised`. Keys with rows come first, by bin and key, then the keys that time out, by bin and
time. How the function is called is the business of a `GroupFunction`; states and timeouts are that of `TimedStates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState
from binshift.operators.expiry import on_time
from binshift.operators.grouping import bin_groups, of_types, one_batch, run_starts
from binshift.operators.timed_states import Changed, Stored, TimedStates, Timeout, adopt_states


@dataclass(frozen=True)
class Groups:
    """Keys to call the function for.

    Attributes:
        keys: the grouping columns; each key once.
        rows: all input columns, in the order of the keys; no rows if the keys have timed out.
        starts: where the rows of each key begin, and where the last ones end.
        states: of the keys.
        timed_out: whether the keys have timed out.
    """

    keys: pa.RecordBatch
    rows: pa.RecordBatch
    starts: IntArray
    states: Stored
    timed_out: bool


@dataclass(frozen=True)
class Called:
    """What the calls for some keys returned: output rows, and what has become of the states."""

    output: list[pa.RecordBatch]
    states: Changed


Calls = Callable[[Groups], Called]


class GroupFunction(Protocol):
    """A user's function; pickled into the epoch's tasks."""

    def begin(self, context: EpochContext) -> Calls:
        """What calls the function in one run of an epoch; the function itself is a new one in each run."""


@dataclass(frozen=True)
class GroupStates:
    """Calls a function for each key.

    Attributes:
        function: the user's.
        keys: the grouping columns.
        rows: all input columns.
        state: the columns of a state.
        output: the columns of what the function returns.
        timeout: when keys time out.
        late: whether rows can be late: the input has `EXPIRY_COLUMN`.
        group_bytes_max: the input is cut into groups of whole bins of about this many bytes.
    """

    function: GroupFunction
    keys: pa.Schema
    rows: pa.Schema
    state: pa.Schema
    output: pa.Schema
    timeout: Timeout
    late: bool = False
    group_bytes_max: int = 16 << 20

    @property
    def output_schema(self) -> pa.Schema:
        """The columns of what the function returns."""
        return self.output

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """See `Keyed`."""
        return [rows.column(self.rows.get_field_index(name) - len(self.rows)) for name in self.keys.names]

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store the states of keys without one; see `adopt_states`."""
        adopt_states(self.keys, self.state, self.timeout, rows, state)

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Call the function for all keys with rows, then for all that time out."""
        states = TimedStates(self.keys, self.state, self.timeout, state, context)
        calls = self.function.begin(context)
        if self.late:
            batches = (on_time(batch, state, context) for batch in batches)
        for group in bin_groups(batches, self.group_bytes_max):
            yield from self._with_rows(group, states, calls)
        nothing = pa.RecordBatch.from_pylist([], schema=self.rows)
        for bins, packed in states.timed_out():
            before = states.read(bins, packed)
            starts = np.zeros(len(packed) + 1, dtype=np.int32)
            called = calls(Groups(states.keys.unpack(packed), nothing, starts, before, timed_out=True))
            states.write(bins, packed, before, called.states)
            yield from called.output

    def _with_rows(self, group: pa.Table, states: TimedStates, calls: Calls) -> Iterator[pa.RecordBatch]:
        rows = one_batch(of_types(group.columns[-len(self.rows) :], self.rows), self.rows)
        keyed = rows.select(self.keys.names)
        packed = states.keys.pack(keyed)
        first = run_starts(packed)
        bins: IntArray = group.column(BIN_COLUMN).to_numpy().take(first)
        touched = packed.take(pa.array(first))
        before = states.read(bins, touched)
        starts = np.append(first, len(packed)).astype(np.int32)
        called = calls(Groups(keyed.take(pa.array(first)), rows, starts, before, timed_out=False))
        states.write(bins, touched, before, called.states)
        yield from called.output
