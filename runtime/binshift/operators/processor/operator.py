"""Runs a user's stateful processor: the operator of ``transformWithState``.

Rows arrive sorted by (bin, key, source order). They are cut into groups of whole bins of bounded size; what a group's keys have in
state is read at once, and what the user's code changed is written at once. After all input the timers that are due fire, in chunks,
and last what has outlived its time to live is deleted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState, Wake
from binshift.operators.expiry import on_time
from binshift.operators.grouping import bin_groups, one_batch, run_starts
from binshift.operators.processor.adopting import adopt_rows
from binshift.operators.processor.contract import (
    DELETED_VARIABLES,
    Calls,
    Firing,
    InputGroup,
    StateOf,
    States,
    UserProcessor,
)
from binshift.operators.processor.keygroup import KeyGroup, Turn
from binshift.operators.processor.latecheck import none_late
from binshift.operators.processor.lists import Lists
from binshift.operators.processor.maps import Maps
from binshift.operators.processor.timers import Due, Timers, due_timers
from binshift.operators.processor.ttl import end_expired
from binshift.operators.processor.values import Values
from binshift.operators.processor.variables import Kind, Variable, inner_schema
from binshift.operators.processor.view import EpochView
from binshift.rows import RowCodec, of_type

KEY_PREFIX, ROW_PREFIX, INITIAL_PREFIX = "k", "c", "i"
"""The columns of grouping keys, of the user's rows and of the initial state's are these and a number."""

INITIAL_COLUMN = "__initial"
"""Input column of an epoch with an initial state: whether a row belongs to that."""

COUNTED = (
    *("numRegisteredTimers", "numDeletedTimers", "numExpiredTimers", DELETED_VARIABLES),
    *(f"num{kind}State{ttl}Vars" for kind in ("Value", "List", "Map") for ttl in ("", "WithTTL")),
)
"""Custom metrics of Spark that an epoch of a processor always has."""

TIMERS_AT_ONCE = 16_384

GROUP_BYTES_MAX = 8 << 20


class TimeMode(enum.Enum):
    """What timers and time to live refer to; the values are the names in Spark's errors."""

    NONE = "None"
    PROCESSING = "ProcessingTime"
    EVENT = "EventTime"

    @property
    def in_plans(self) -> str:
        """The name in Spark's plans and metadata."""
        return "NoTime" if self is TimeMode.NONE else self.value


@dataclass(frozen=True)
class StatefulProcessing:
    """Runs a processor.

    The input columns are `BIN_COLUMN`, in event time also `EXPIRY_COLUMN`, the keys as ``k0``, ``k1``, ... and the user's rows
    as ``c0``, ``c1``, .... With an initial state there are `INITIAL_COLUMN`, and its columns as ``i0``, ``i1``, ....

    Attributes:
        user: the user's code.
        keys: the grouping columns.
        rows: the user's columns.
        output: what the user's code returns.
        variables: the processor's state variables.
        time: the mode.
        late_rows: whether rows have an event time by which they can be late; in event time only.
        initial: the columns of the initial state; None without one.
        event_time: the column of the output that operators behind take as event time: rows must not be late there; None without one.
    """

    user: UserProcessor
    keys: pa.Schema
    rows: pa.Schema
    output: pa.Schema
    variables: tuple[Variable, ...]
    time: TimeMode
    late_rows: bool = False
    initial: pa.Schema | None = None
    event_time: str | None = None

    @property
    def output_schema(self) -> pa.Schema:
        """What the user's code returns."""
        return self.output

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Run a new instance of the processor over an epoch."""
        returned = _Epoch(self, state, context).run(batches)
        yield from returned if self.event_time is None else none_late(returned, self.event_time, context)

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """See `Keyed`."""
        return [rows.column(f"{KEY_PREFIX}{at}") for at in range(len(self.keys))]

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store variables and timers of keys without state; see `binshift.operators.processor.adopting`."""
        adopt_rows(self.variables, self.key_codec.pack(_columns(rows, KEY_PREFIX, self.keys)), rows, state)
        if self.time is TimeMode.PROCESSING:
            state.wake = Wake(state.times.timers, after_ms=0)

    @cached_property
    def key_codec(self) -> RowCodec:
        """Packs grouping keys as Spark sends them."""
        return RowCodec(self.keys)

    @cached_property
    def inner_key_codec(self) -> RowCodec:
        """Unpacks them in Spark's inner form."""
        return RowCodec(inner_schema(self.keys))


class _Epoch:
    def __init__(self, operator: StatefulProcessing, state: EpochState, context: EpochContext) -> None:
        self._operator = operator
        self._state = state
        self._context = context
        self._view = EpochView(state)
        turn = Turn(context.batch_time_ms)
        self._variables: dict[str, StateOf] = {
            each.name: _state_of(each, self._view, turn) for each in operator.variables
        }
        self._timers = None if operator.time is TimeMode.NONE else Timers(self._view, turn, state.counts)
        state.counts.update(dict.fromkeys(COUNTED, 0))
        state.counts.update(_counted(each) for each in operator.variables)
        self._states = States(turn, self._variables, self._timers, context.watermark_ms, state.counts)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        calls = self._operator.user.open(self._states)
        on_time_only = self._on_time(batches) if self._operator.late_rows else batches
        for rows in bin_groups(on_time_only, GROUP_BYTES_MAX):
            yield from self._input(calls, rows)
        if self._timers is not None:
            yield from self._fire(calls)
        if any(each.ttl_ms is not None for each in self._operator.variables):
            end_expired(self._state, self._view, self._variables, self._context)
        if self._operator.time is TimeMode.PROCESSING:
            self._state.wake = Wake(self._state.times.timers, after_ms=0)
        calls.close()

    def _on_time(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield on_time(batch, self._state, self._context)

    def _input(self, calls: Calls, table: pa.Table) -> Iterator[pa.RecordBatch]:
        batch = one_batch(table, table.schema)
        keys = _columns(batch, KEY_PREFIX, self._operator.keys)
        packed = self._operator.key_codec.pack(keys)
        first = run_starts(packed)
        bins: IntArray = batch.column(BIN_COLUMN).to_numpy()
        self._bind(KeyGroup(bins[first], packed.take(pa.array(first))))
        yield from calls.inputs(self._group(batch, keys.take(pa.array(first)), first))
        self._flush()

    def _group(self, batch: pa.RecordBatch, keys: pa.RecordBatch, first: IntArray) -> InputGroup:
        starts = np.append(first, np.int32(batch.num_rows))
        if self._operator.initial is None or INITIAL_COLUMN not in batch.schema.names:
            return InputGroup(keys, _columns(batch, ROW_PREFIX, self._operator.rows), starts)
        initial = batch.column(INITIAL_COLUMN).to_numpy(zero_copy_only=False)
        before = np.concatenate(([0], np.cumsum(initial)))[starts].astype(np.int32)
        rows, others = batch.filter(pa.array(~initial)), batch.filter(pa.array(initial))
        return InputGroup(
            keys,
            _columns(rows, ROW_PREFIX, self._operator.rows),
            starts - before,
            _columns(others, INITIAL_PREFIX, self._operator.initial),
            before,
        )

    def _fire(self, calls: Calls) -> Iterator[pa.RecordBatch]:
        context, event = self._context, self._operator.time is TimeMode.EVENT
        due = due_timers(self._state, context.owned, context.watermark_ms if event else context.batch_time_ms)
        self._state.counts["numExpiredTimers"] += len(due)
        if due:
            self._view.look_back(binary.of([packed for _, packed, _ in due]))
        for at in range(0, len(due), TIMERS_AT_ONCE):
            group, firing = self._firing(due[at : at + TIMERS_AT_ONCE])
            self._bind(group)
            yield from calls.expired(firing)
            self._flush()

    def _firing(self, due: list[Due]) -> tuple[KeyGroup, Firing]:
        places: dict[bytes, int] = {}
        bins: list[int] = []
        for _, packed, bin in due:
            if places.setdefault(packed, len(places)) == len(bins):
                bins.append(bin)
        packed_keys = binary.of(list(places))
        keys = self._operator.inner_key_codec.unpack(packed_keys)
        firing = Firing(keys, [places[packed] for _, packed, _ in due], [time for time, _, _ in due])
        return KeyGroup(np.array(bins, dtype=np.int32), packed_keys), firing

    def _bind(self, group: KeyGroup) -> None:
        for each in self._variables.values():
            each.bind(group)
        if self._timers is not None:
            self._timers.bind(group)

    def _flush(self) -> None:
        for each in self._variables.values():
            each.flush()
        if self._timers is not None:
            self._timers.flush()


def _counted(variable: Variable) -> str:
    """The custom metric of Spark that counts such variables."""
    return f"num{variable.kind.value.capitalize()}State{'' if variable.ttl_ms is None else 'WithTTL'}Vars"


def _state_of(variable: Variable, view: EpochView, turn: Turn) -> StateOf:
    match variable.kind:
        case Kind.VALUE:
            return Values(variable, view, turn)
        case Kind.LIST:
            return Lists(variable, view, turn)
        case Kind.MAP:
            return Maps(variable, view, turn)


def _columns(batch: pa.RecordBatch, prefix: str, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of that prefix, with the names and types of a schema."""
    columns = [of_type(batch.column(f"{prefix}{at}"), field.type) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
