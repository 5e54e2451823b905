"""Turns entries of an operator's state into columns of keys and values, as `binshift.operators.stored` describes them.

A new way of storing rows is a `Form` and a function in `_DECODERS`. A decoder must never need more than the entries that it is
given, nor visit them one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary, entries
from binshift.entries import Entries
from binshift.invariants import invariant
from binshift.operators.contract import STATE_SPACE, without_space
from binshift.operators.first_times import times_of
from binshift.operators.join_chunks import Lists
from binshift.operators.join_chunks import decode as decode_chunks
from binshift.operators.processor.decoding import PROCESSOR_DECODERS
from binshift.operators.session_codec import SESSION_END_COLUMN, key_of, start_of
from binshift.operators.stored import SIDES, Decoded, Form, StoredRows, struct_of
from binshift.rows import RowCodec


def decode(rows: StoredRows, found: Entries, watermark_ms: int) -> Decoded:
    """The rows of one kind among entries of an operator, in their order.

    Args:
        rows: which.
        found: entries of any kind; a value of null is a deletion.
        watermark_ms: of the epoch of the entries, milliseconds since 1970: rows that it has ended can still be stored, and do not
            count.

    Raises:
        LogDamaged: an entry is not what the description states.
    """
    if rows.form in PROCESSOR_DECODERS:
        decoded = PROCESSOR_DECODERS[rows.form](rows, found)
    else:
        if rows.form is not Form.OPAQUE:
            found = found.filter(pc.starts_with(found.column("key"), pattern=STATE_SPACE))
        decoded = _DECODERS[rows.form](rows, found, watermark_ms - rows.delay_ms)
    types = [each.type for each in decoded.columns]
    invariant(types == rows.columns.types, f"decoded {types}, described {rows.columns.types}")
    return decoded


def _packed(rows: StoredRows, found: Entries, _: int) -> Decoded:
    keys = RowCodec(rows.keys).unpack(without_space(found.column("key")))
    values = RowCodec(rows.values, canonical=False).unpack(found.column("value"))
    return _decoded(found, keys.columns, values.columns, rows)


def _single(rows: StoredRows, found: Entries, _: int) -> Decoded:
    values = RowCodec(rows.values, canonical=False).unpack(found.column("value"))
    return _decoded(found, [pa.nulls(found.num_rows, each.type) for each in rows.keys], values.columns, rows)


def _key(rows: StoredRows, found: Entries, _: int) -> Decoded:
    keys = RowCodec(rows.keys).unpack(without_space(found.column("key")))
    return _decoded(found, keys.columns, [pa.nulls(found.num_rows)], rows)


def _expiry(rows: StoredRows, found: Entries, _: int) -> Decoded:
    keys = RowCodec(rows.keys).unpack(without_space(found.column("key")))
    stored = found.column("value")
    ends = np.zeros(found.num_rows, dtype=np.int64)
    ends[binary.valid(stored)] = times_of(binary.contiguous(stored.drop_null())) * 1000
    return _decoded(found, keys.columns, [pa.array(ends)], rows)


def _session(rows: StoredRows, found: Entries, _: int) -> Decoded:
    """Key: the user's columns and ``sessionStartTime``; value: ``session_window`` and the buffers."""
    names, time = without_space(found.column("key")), rows.keys.types[-1]
    codec = RowCodec(pa.schema([(SESSION_END_COLUMN, pa.int64()), *list(rows.values)[1:]]), canonical=False)
    stored = codec.unpack(found.column("value"))
    start = pa.array(start_of(names), pa.int64()).cast(time)
    window = pa.StructArray.from_arrays(
        [start, stored.column(0).cast(time)], fields=[rows.values.types[0].field(at) for at in (0, 1)]
    )
    keys = RowCodec(pa.schema(list(rows.keys)[:-1])).unpack(key_of(names))
    return _decoded(found, [*keys.columns, start], [window, *stored.columns[1:]], rows)


def _side(rows: StoredRows, found: Entries, watermark_ms: int) -> Decoded:
    """One row for each row of the side that has not ended; a deleted chunk is none."""
    names = without_space(found.column("key"))
    bins = entries.bins_array(found)
    lists, list, _ = Lists.of(bins, names)
    chunks, _ = decode_chunks(found.column("value"))
    live = (list[chunks.chunk] & 1 == SIDES[rows.name]) & (chunks.expiry > watermark_ms)
    chosen = chunks.take(np.flatnonzero(live))
    keys = RowCodec(rows.keys).unpack(lists.keys.take(pa.array(list[chosen.chunk] >> 1)))
    values = RowCodec(rows.values, canonical=False).unpack(chosen.packed)
    columns = [
        struct_of(keys.columns, rows.key_type, len(chosen.chunk)),
        struct_of(values.columns[: len(rows.values) - rows.hidden], rows.value_type, len(chosen.chunk)),
    ]
    return Decoded(pa.array(bins[chosen.chunk]), columns, np.ones(len(chosen.chunk), dtype=np.bool_))


def _opaque(rows: StoredRows, found: Entries, _: int) -> Decoded:
    return _decoded(found, [found.column("key")], [found.column("value")], rows)


_DECODERS: dict[Form, Callable[[StoredRows, Entries, int], Decoded]] = {
    Form.PACKED: _packed,
    Form.SINGLE: _single,
    Form.KEY: _key,
    Form.EXPIRY: _expiry,
    Form.SESSION: _session,
    Form.SIDE: _side,
    Form.OPAQUE: _opaque,
}


def _decoded(found: Entries, keys: Sequence[pa.Array], values: Sequence[pa.Array], rows: StoredRows) -> Decoded:
    shown = values[: len(rows.values) - rows.hidden]
    present = binary.valid(found.column("value"))
    columns = [
        struct_of(keys, rows.key_type, found.num_rows),
        struct_of(shown, rows.value_type, found.num_rows, present),
    ]
    return Decoded(found.column("bin"), columns, present)
