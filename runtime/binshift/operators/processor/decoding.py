"""The state of a processor for readers outside of it: what describes its variables and timers, and how their entries are decoded.

Columns are those of Spark's ``statestore`` source, with and without ``flattenCollectionTypes``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.entries import Entries
from binshift.model import IntArray
from binshift.operators.contract import STATE_SPACE, TIMER_SPACE
from binshift.operators.first_times import TIME_BYTES, times_of
from binshift.operators.grouping import run_starts
from binshift.operators.processor.chunks import ChunkCodec
from binshift.operators.processor.evolution import History
from binshift.operators.processor.layout import split_keys, variable_prefix
from binshift.operators.processor.variables import Kind, TupleCodec
from binshift.operators.stored import TTL, Decoded, Form, StoredRows, struct_of
from binshift.rows import RowCodec

TIMERS = "timers"
"""The name of rows that are registered timers."""

FORMS = {Kind.VALUE: Form.VALUE, Kind.LIST: Form.LIST, Kind.MAP: Form.MAP}


def variable_rows(history: History, keys: pa.Schema) -> StoredRows:
    """The rows of a variable; ``keys`` are the grouping columns."""
    *older, schema = history.versions
    ending = pa.schema([("value", pa.struct(list(schema))), (TTL, pa.int64())]) if history.expires else schema
    values = {
        Kind.VALUE: ending,
        Kind.LIST: pa.schema([("list_element", pa.struct(list(ending)))]),
        Kind.MAP: pa.schema(
            [("user_map_key", pa.struct(list(history.user_key or ()))), ("user_map_value", pa.struct(list(ending)))]
        ),
    }
    return StoredRows(
        history.name,
        FORMS[history.kind],
        keys,
        values[history.kind],
        number=history.number,
        expires=history.expires,
        older=tuple(older),
    )


def timer_rows(keys: pa.Schema) -> StoredRows:
    """The registered timers."""
    return StoredRows(TIMERS, Form.TIMER, keys, pa.schema([("expiration_timestamp_ms", pa.int64())]))


def _value(rows: StoredRows, found: Entries) -> Decoded:
    packed, _ = split_keys(found.column("key"))
    present = binary.valid(found.column("value"))
    columns = [_keys(rows, packed), _structs(rows, found.column("value"), rows.value_type)]
    return Decoded(found.column("bin"), columns, present)


def _map(rows: StoredRows, found: Entries) -> Decoded:
    packed, names = split_keys(found.column("key"))
    user_type, value_type = rows.values.types
    user_keys = struct_of(RowCodec(pa.schema(list(user_type))).unpack_columns(names), user_type, len(names))
    columns = [user_keys, _structs(rows, found.column("value"), value_type)]
    if rows.collected:
        return _collected(rows, found.column("bin"), packed, lambda ends: pa.MapArray.from_arrays(ends, *columns))
    return Decoded(found.column("bin"), [_keys(rows, packed), *columns], binary.valid(found.column("value")))


def _list(rows: StoredRows, found: Entries) -> Decoded:
    """Elements of chunks; a deleted chunk has none."""
    found = found.filter(found.column("value").is_valid())
    packed, _ = split_keys(found.column("key"))
    (type,) = rows.values.types
    inner = type.field("value").type if rows.expires else type
    lists = ChunkCodec((*rows.older, pa.schema(list(inner)))).lists(found.column("value"))
    ends, *values = lists.flatten().flatten()
    elements = struct_of(values, inner, len(ends))
    if rows.expires:
        elements = struct_of([elements, ends], type, len(ends))
    owner = pa.array(np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy())))
    bins, packed = found.column("bin").take(owner), packed.take(owner)
    if rows.collected:
        return _collected(
            rows, bins, packed, lambda ends: pa.ListArray.from_arrays(ends, elements, type=rows.collected_type)
        )
    return Decoded(bins, [_keys(rows, packed), elements], np.ones(len(bins), dtype=np.bool_))


def _timer(rows: StoredRows, found: Entries) -> Decoded:
    column = found.column("key")
    bounds, content = binary.offsets(column), binary.data(column)
    starts, stops = bounds[:-1] + 1, bounds[1:]
    times = times_of(binary.contiguous(binary.pieces(content, starts, starts + TIME_BYTES)))
    keys = _keys(rows, binary.pieces(content, starts + TIME_BYTES, stops))
    return Decoded(found.column("bin"), [keys, pa.array(times)], binary.valid(found.column("value")))


def _of_variable(decoder: Callable[[StoredRows, Entries], Decoded]) -> Callable[[StoredRows, Entries], Decoded]:
    def decode(rows: StoredRows, found: Entries) -> Decoded:
        prefix = TIMER_SPACE if rows.form is Form.TIMER else variable_prefix(STATE_SPACE, rows.number)
        return decoder(rows, found.filter(pc.starts_with(found.column("key"), pattern=prefix)))

    return decode


PROCESSOR_DECODERS: dict[Form, Callable[[StoredRows, Entries], Decoded]] = {
    Form.VALUE: _of_variable(_value),
    Form.LIST: _of_variable(_list),
    Form.MAP: _of_variable(_map),
    Form.TIMER: _of_variable(_timer),
}


def _keys(rows: StoredRows, packed: pa.BinaryArray) -> pa.StructArray:
    return struct_of(RowCodec(rows.keys).unpack_columns(packed), rows.key_type, len(packed))


def _structs(rows: StoredRows, stored: pa.BinaryArray, type: pa.StructType) -> pa.StructArray:
    """Stored tuples as structs; null where nothing is stored."""
    inner = type.field("value").type if rows.expires else type
    present = binary.valid(stored)
    columns, ends = TupleCodec((*rows.older, pa.schema(list(inner))), expires=rows.expires).unpack_columns(
        stored.drop_null()
    )
    found = struct_of(columns, inner, len(ends))
    if rows.expires:
        found = struct_of([found, pa.array(ends, pa.int64())], type, len(ends))
    return found.take(pa.array(np.cumsum(present) - 1, mask=~present))


def _collected(
    rows: StoredRows, bins: pa.Int32Array, packed: pa.BinaryArray, collect: Callable[[pa.Int32Array], pa.Array]
) -> Decoded:
    """One row for each key; all rows of a key follow one another."""
    first: IntArray = run_starts(packed) if len(packed) else np.empty(0, dtype=np.int32)
    at = pa.array(first)
    found = collect(pa.array(np.append(first, len(packed)).astype(np.int32)))
    columns: Sequence[pa.Array] = [_keys(rows, packed.take(at)), found]
    return Decoded(bins.take(at), columns, np.ones(len(first), dtype=np.bool_))
