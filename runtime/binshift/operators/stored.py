"""What an operator keeps, described for readers outside of it: which rows, with which columns, and how an entry is decoded.

An operator (or its stage, which knows the user's names) describes its state as a few `StoredRows`; the description is on the
log, so that tools read the state without Spark and without the program. `decode` turns entries into columns of keys and values,
named as those of Spark's ``statestore`` source where it has them.

A new way of storing rows is a `Form` and a function in `_DECODERS`. A decoder must never need more than the entries that it is
given, nor visit them one at a time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary, entries
from binshift.entries import Entries
from binshift.invariants import invariant
from binshift.operators.contract import STATE_SPACE, EpochState, without_space
from binshift.operators.first_times import times_of
from binshift.operators.join_chunks import Lists
from binshift.operators.join_chunks import decode as decode_chunks
from binshift.operators.join_pairs import LEFT, RIGHT
from binshift.operators.session_codec import SESSION_END_COLUMN, key_of, start_of
from binshift.rows import RowCodec

SINGLE_STORE = "default"
"""Spark's name of the rows of an operator that has one kind."""

SIDES = {"left": LEFT, "right": RIGHT}
"""Names of the sides of a join."""

DUMMY = pa.field("__dummy__", pa.null())
"""Spark's column of a value without content."""

NO_KEY = pa.field("key", pa.null())
"""Spark's key of an operator without keys that is no aggregation."""

EXPIRES = pa.field("expiresAtMicros", pa.int64())
"""Spark's column of the end of a row, microseconds since 1970."""

OPAQUE_KEY, OPAQUE_VALUE = pa.schema([("key", pa.binary())]), pa.schema([("value", pa.binary())])
"""The columns of rows that nothing describes."""


class Form(enum.Enum):
    """How one kind of row is stored; each comment has its key and its value."""

    PACKED = "packed"  # the packed key; the packed value
    SINGLE = "single"  # a constant, for the only row; the packed value
    KEY = "key"  # the packed key; nothing
    EXPIRY = "expiry"  # the packed key; when the row ends, in milliseconds
    SESSION = "session"  # the packed key and the start of a session; its end and its buffers, packed
    SIDE = "side"  # of a chunk of rows of one side of a join; see `join_chunks`
    OPAQUE = "opaque"  # any; any


@dataclass(frozen=True)
class StoredRows:
    """One kind of row in the state of an operator.

    Attributes:
        name: unique in the operator.
        form: how they are stored.
        keys: the columns of the key.
        values: the columns of the value.
        hidden: how many of the last columns of ``values`` are not the user's.
        delay_ms: how far the watermark that ends the rows is behind the query's, in milliseconds.
    """

    name: str
    form: Form
    keys: pa.Schema
    values: pa.Schema
    hidden: int = 0
    delay_ms: int = 0

    def named(self, keys: Sequence[str], values: Sequence[str]) -> StoredRows:
        """The same rows with other names of columns; repeated names get a number."""
        return replace(self, keys=_renamed(self.keys, keys), values=_renamed(self.values, values))

    @property
    def key_type(self) -> pa.StructType:
        """The columns of the key, as a reader has them."""
        return pa.struct(list(self.keys))

    @property
    def value_type(self) -> pa.StructType:
        """The columns of the value, as a reader has them."""
        return pa.struct(list(self.values)[: len(self.values) - self.hidden])


OPAQUE_ROWS = StoredRows("opaque", Form.OPAQUE, OPAQUE_KEY, OPAQUE_VALUE)
"""The rows of an operator whose description the log lacks, as bytes."""


class Adoptable(Protocol):
    """An operator that can take over rows that Spark has kept."""

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store rows of keys that have no state; all rows of a bin come together."""


@dataclass(frozen=True)
class Decoded:
    """Rows of the state, or changes of it.

    Attributes:
        bins: of each row.
        keys: a struct of the columns of the key.
        values: a struct of the columns of the value; null for a deleted row.
    """

    bins: pa.Int32Array
    keys: pa.StructArray
    values: pa.StructArray


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
    if rows.form is not Form.OPAQUE:
        found = found.filter(pc.starts_with(found.column("key"), pattern=STATE_SPACE))
    decoded = _DECODERS[rows.form](rows, found, watermark_ms - rows.delay_ms)
    invariant(decoded.values.type == rows.value_type, f"decoded {decoded.values.type}, described {rows.value_type}")
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
    return Decoded(
        pa.array(bins[chosen.chunk]),
        _struct(keys.columns, rows.key_type, len(chosen.chunk)),
        _struct(values.columns[: len(rows.values) - rows.hidden], rows.value_type, len(chosen.chunk)),
    )


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
    return Decoded(
        found.column("bin"),
        _struct(keys, rows.key_type, found.num_rows),
        _struct(shown, rows.value_type, found.num_rows, present),
    )


def _struct(
    columns: Sequence[pa.Array], type: pa.StructType, length: int, present: binary.BoolArray | None = None
) -> pa.StructArray:
    """Not by `pa.StructArray.from_arrays`, which takes the number of rows from the columns."""
    validity = None if present is None else binary.validity(present)
    return pa.Array.from_buffers(type, length, [validity], children=list(columns))


def _renamed(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    invariant(len(names) == len(schema), f"{len(names)} names for {len(schema)} columns")
    return pa.schema(
        [pa.field(name, each.type, each.nullable) for name, each in zip(distinct(names), schema, strict=True)]
    )


def distinct(names: Iterable[str]) -> list[str]:
    """The names; a repeated one gets a number.

    >>> distinct(["k", "n", "k", "k"])
    ['k', 'n', 'k_2', 'k_3']
    """
    made: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        made.append(next(each for each in chain([name], numbered) if each not in made))
    return made
