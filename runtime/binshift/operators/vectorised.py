"""A vectorised state function: runs the user's function over all touched keys of a group of bins, as Arrow tables.

Rows arrive sorted by (bin, key, source order); the JVM sorts them (and spills). Their columns are the bin, F's other columns,
and last the input columns, identified by position because users may give them any name. The rows are cut into groups of whole
bins of bounded size. The user's function is called once per group with the touched keys, their rows and their state, and
returns output rows and the new state. It must be deterministic: an epoch may run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from binshift.errors import UserFunctionFailed
from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN, STATE_SPACE, EpochContext, EpochState, prefixed
from binshift.operators.grouping import bin_groups, of_types, one_batch, run_starts
from binshift.operators.stored import SINGLE_STORE, Form, StoredRows
from binshift.rows import RowCodec, of_type

StateFunction = Callable[[pa.RecordBatch, pa.Table, pa.Table], tuple[pa.Table, pa.Table]]
"""``func(keys, rows, state) -> (output, state)``, see `VectorisedState`."""


@dataclass(frozen=True)
class VectorisedState:
    """Runs a `StateFunction`.

    The function gets ``keys`` (each touched key once), ``rows`` (all input columns of these keys' rows, grouped by key)
    and ``state`` (key columns and state columns of those keys that have a state). It returns the output rows and the new
    state in the layout of ``state``: a touched key without a row in the new state loses its state.

    Attributes:
        function: the user's function.
        keys: the grouping columns.
        rows: all input columns that the function sees.
        state: the state's columns, without the keys.
        output: the columns of the function's first result.
        group_bytes_max: the input is cut into groups of whole bins of about this many bytes.
    """

    function: StateFunction
    keys: pa.Schema
    rows: pa.Schema
    state: pa.Schema
    output: pa.Schema
    group_bytes_max: int = 16 << 20

    @property
    def output_schema(self) -> pa.Schema:
        """The columns of the function's first result."""
        return self.output

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """See `Keyed`."""
        return [rows.column(self.rows.get_field_index(name) - len(self.rows)) for name in self.keys.names]

    def stored(self) -> tuple[StoredRows, ...]:
        """A row for each key with a state."""
        return (StoredRows(SINGLE_STORE, Form.PACKED, self.keys, self.state),)

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store the states of keys without one; ``rows`` has `BIN_COLUMN`, the keys and the state's columns."""
        keys, values = (
            [of_type(rows.column(each.name), each.type) for each in schema] for schema in (self.keys, self.state)
        )
        packed = RowCodec(self.keys).pack_columns(keys, rows.num_rows)
        stored = RowCodec(self.state, canonical=False).pack_columns(values, rows.num_rows)
        state.put(rows.column(BIN_COLUMN), prefixed(STATE_SPACE, packed), stored)

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Call the function once per group of bins; keep the state that it returns."""
        for group in bin_groups(batches, self.group_bytes_max):
            yield from self._call(group, state)

    def _call(self, group: pa.Table, state: EpochState) -> Iterator[pa.RecordBatch]:
        rows = of_types(group.columns[-len(self.rows) :], self.rows).combine_chunks()
        keyed = one_batch(rows.select(self.keys.names), self.keys)
        packed = RowCodec(self.keys).pack(keyed)
        first = run_starts(packed)
        bins: IntArray = group.column(BIN_COLUMN).to_numpy().take(first)
        keys = keyed.take(pa.array(first))
        touched = packed.take(pa.array(first))
        stored = state.get(bins, prefixed(STATE_SPACE, touched))
        present = stored.is_valid()
        state_columns = [
            *keys.filter(present).columns,
            *RowCodec(self.state, canonical=False).unpack(stored.filter(present)).columns,
        ]
        before = pa.Table.from_arrays(state_columns, schema=self._state_schema)
        output, after = self._invoke(keys, rows, before)
        batch, placed = self._placed(touched, after)
        values = RowCodec(self.state, canonical=False).pack(batch.select(self.state.names)).take(placed)
        kept = pc.or_(present, values.is_valid())  # a key without state before and after is no change
        state.put(
            bins[kept.to_numpy(zero_copy_only=False)], prefixed(STATE_SPACE, touched.filter(kept)), values.filter(kept)
        )
        yield from output.to_batches()

    @property
    def _state_schema(self) -> pa.Schema:
        return pa.schema([*self.keys, *self.state])

    def _invoke(self, keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        result = self.function(keys, rows, state)
        if not isinstance(result, tuple) or len(result) != 2:
            raise UserFunctionFailed(
                f"the function returned {type(result).__name__}; it must return a pair of pyarrow.Table: (output, state)"
            )
        output, after = result
        return _conform("output", output, self.output), _conform("state", after, self._state_schema)

    def _placed(self, touched: pa.BinaryArray, after: pa.Table) -> tuple[pa.RecordBatch, pa.Int32Array]:
        """The new state in one batch, and for each touched key the position of its row, null where the function returned none."""
        batch = one_batch(after, self._state_schema)
        returned = RowCodec(self.keys).pack(batch.select(self.keys.names))
        unknown = pc.invert(pc.is_in(returned, value_set=touched))
        if pc.any(unknown).as_py():
            key = _shown(batch.select(self.keys.names).filter(unknown), returned.filter(unknown))
            raise UserFunctionFailed(f"the function returned state for the key {key}, which this call did not touch")
        if pc.count_distinct(returned).as_py() != len(returned):
            raise UserFunctionFailed("the function returned two state rows for one key; return one row per key")
        return batch, pc.index_in(touched, value_set=returned)


def _shown(keys: pa.RecordBatch, packed: pa.BinaryArray) -> str:
    """The first key, for an error; a Spark string need not be UTF-8, and then only its bytes can be shown."""
    try:
        return str(keys.slice(0, 1).to_pylist()[0])
    except UnicodeDecodeError:
        return f"{keys.schema.names} packed as {packed[0].as_py()!r}"


def _conform(what: str, table: object, schema: pa.Schema) -> pa.Table:
    if not isinstance(table, pa.Table):
        raise UserFunctionFailed(f"the function's {what} is a {type(table).__name__}; it must be a pyarrow.Table")
    if sorted(table.column_names) != sorted(schema.names):
        raise UserFunctionFailed(
            f"the function's {what} has the columns {table.column_names}; it must have {schema.names}"
        )
    try:
        typed = of_types(table.select(schema.names).columns, schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UserFunctionFailed(f"the function's {what} does not have the declared types {schema}: {error}") from None
    missing = [field.name for field in schema if not field.nullable and typed.column(field.name).null_count]
    if missing:
        raise UserFunctionFailed(f"the function's {what} has nulls in {missing}, which are declared never null")
    return typed
