"""A vectorised function of the rows of some keys and their states, as an operator of a simulated query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from binshift.operators.contract import BIN_COLUMN
from binshift.operators.vectorised import StateFunction, VectorisedState
from simulator.flows import Key, Packed, Row, State, bin_of, packed_rows, union

OneKey = Callable[[Key, Sequence[Row], Row | None], tuple[Sequence[Row], Row | None]]
"""``function(key, rows, state) -> (output, state)``: all rows of one key in one epoch; None means no state."""


@dataclass(frozen=True)
class StateFlow:
    """A vectorised function of all rows of some keys and their states.

    Attributes:
        function: the function under test, over Arrow tables.
        keys: names of the grouping columns.
        rows: all input columns.
        state: the state's columns, without the keys.
        output: the columns of the function's first result.
        one_key: the same function for one key in plain Python; None: the reference calls ``function`` key by key.
        name: see `Flow`.
        group_bytes_max: see `VectorisedState`; small here, so that it is called for several groups.
    """

    function: StateFunction
    keys: tuple[str, ...]
    rows: pa.Schema
    state: pa.Schema
    output: pa.Schema
    one_key: OneKey | None = None
    name: str = "state"
    group_bytes_max: int = 200
    delay_ms: int | None = field(default=None, init=False)
    time: str = field(default="", init=False)
    holds_back_ms: ClassVar[int] = 0

    @classmethod
    def of(
        cls,
        one_key: OneKey,
        keys: tuple[str, ...],
        rows: pa.Schema,
        state: pa.Schema,
        output: pa.Schema,
        name: str = "state",
    ) -> StateFlow:
        """A flow from a function of one key."""
        key_schema = pa.schema([rows.field(column) for column in keys])
        return cls(_for_many_keys(one_key, key_schema, state, output), keys, rows, state, output, one_key, name)

    @property
    def key_schema(self) -> pa.Schema:
        """The grouping columns."""
        return pa.schema([self.rows.field(column) for column in self.keys])

    @property
    def operator(self) -> VectorisedState:
        """The real operator."""
        return VectorisedState(self.function, self.key_schema, self.rows, self.state, self.output, self.group_bytes_max)

    def key_of(self, row: Row) -> Key:
        """The key of a row."""
        return tuple(row[column] for column in self.keys)

    def arranged(self, inputs: Sequence[Sequence[Row]], bins: int) -> pa.RecordBatch:
        """All rows by bin, key and input order."""
        rows = union(inputs)
        keys = [self.key_of(row) for row in rows]
        order = sorted(range(len(rows)), key=lambda at: (bin_of(keys[at], bins), keys[at], at))
        columns = {name: [rows[at][name] for at in order] for name in self.rows.names}
        batch = pa.RecordBatch.from_pydict(columns, schema=self.rows)
        found = pa.array([bin_of(keys[at], bins) for at in order], pa.int32())
        return batch.add_column(0, pa.field(BIN_COLUMN, pa.int32()), found)

    def packed(self, state: State, bins: int) -> Packed:
        """State rows."""
        return packed_rows(state, bins, self.key_schema, self.state)


def _for_many_keys(one_key: OneKey, keys: pa.Schema, state: pa.Schema, output: pa.Schema) -> StateFunction:
    """The function over Arrow tables that calls ``one_key`` for each key."""
    state_schema = pa.schema([*keys, *state])

    def function(touched: pa.RecordBatch, rows: pa.Table, before: pa.Table) -> tuple[pa.Table, pa.Table]:
        grouped: dict[Key, list[Row]] = {}
        for row in rows.to_pylist():
            grouped.setdefault(tuple(row[name] for name in keys.names), []).append(row)
        held = {tuple(row[name] for name in keys.names): row for row in before.to_pylist()}
        emitted: list[Row] = []
        kept: list[Row] = []
        for found in touched.to_pylist():
            key = tuple(found.values())
            old = held.get(key)
            out, new = one_key(key, grouped[key], None if old is None else {n: old[n] for n in state.names})
            emitted += out
            kept += [] if new is None else [{**found, **new}]
        return pa.Table.from_pylist(emitted, schema=output), pa.Table.from_pylist(kept, schema=state_schema)

    return function
