"""State variables of a processor: what the driver finds out about them, and how their tuples are stored.

A tuple is stored as

    version (2 bytes) | expiry (8 bytes, with a time to live) | packed row

The version is the number of the schema that wrote it; a variable has several if the program has changed (`versions`). Values are in
the form that Spark has inside: a timestamp is microseconds since 1970, a date is days since 1970, a row is a tuple. What Python users
see is made elsewhere.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.errors import LogDamaged
from binshift.model import IntArray
from binshift.operators.processor.versions import VERSION, by_version, in_order, project
from binshift.rows import RowCodec

NEVER_MS = (1 << 63) - 1
"""The expiry of what does not end."""

Tuple = tuple[Any, ...]


class Kind(enum.Enum):
    """What a variable holds for each key."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True)
class Variable:
    """A state variable.

    Attributes:
        number: identifies it in the keys of rows, 0 to 65,535.
        name: the user's.
        kind: what it holds.
        schema: of a value, an element or a map's value.
        user_key: of a map's keys; else None.
        ttl_ms: the time to live of what is written from now on, milliseconds; None: it does not end.
        older: the schemas of rows that earlier programs have written, in their order.
    """

    number: int
    name: str
    kind: Kind
    schema: pa.Schema
    user_key: pa.Schema | None = None
    ttl_ms: int | None = None
    older: tuple[pa.Schema, ...] = ()

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """All, the newest last."""
        return (*self.older, self.schema)

    @cached_property
    def codec(self) -> TupleCodec:
        """Of its tuples."""
        return TupleCodec(self.schemas, expires=self.ttl_ms is not None)


def inner_type(type: pa.DataType) -> pa.DataType:
    """The Arrow type of values as Spark has them inside: times are whole numbers, at any depth."""
    if pa.types.is_timestamp(type) or pa.types.is_duration(type):
        return pa.int64()
    if pa.types.is_date(type):
        return pa.int32()
    if pa.types.is_struct(type):
        return pa.struct([inner_field(field) for field in type])
    if pa.types.is_map(type):
        return pa.map_(inner_type(type.key_type), inner_field(type.item_field))
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return pa.list_(inner_field(type.value_field))
    return type


def inner_field(field: pa.Field) -> pa.Field:
    """`inner_type` of a field."""
    return pa.field(field.name, inner_type(field.type), field.nullable)


def inner_schema(schema: pa.Schema) -> pa.Schema:
    """`inner_type` of every column; the packed form of a row is the same."""
    return pa.schema([inner_field(field) for field in schema])


def columns_of(tuples: Sequence[Tuple], schema: pa.Schema) -> list[pa.Array]:
    """The columns of tuples in Spark's inner form."""
    if not tuples:
        return [pa.nulls(0, field.type) for field in schema]
    return [pa.array(values, field.type) for values, field in zip(zip(*tuples, strict=True), schema, strict=True)]


def tuples_of(columns: Sequence[pa.Array], rows: int) -> list[Tuple]:
    """The rows of columns in Spark's inner form."""
    return list(zip(*(column.to_pylist() for column in columns), strict=True)) if columns else [()] * rows


class TupleCodec:
    """Packs tuples with their version and expiry, many at once.

    Args:
        schemas: of the tuples, in Spark's inner form; the last one is what is written, and read.
        expires: whether each has an expiry.
    """

    def __init__(self, schemas: Sequence[pa.Schema], *, expires: bool) -> None:
        self._codecs = [RowCodec(schema, canonical=False) for schema in schemas]
        self._schema = schemas[-1]
        self._prefix = np.dtype([("version", VERSION), *([("expiry", ">i8")] if expires else [])])
        self._expires = expires

    def pack(self, tuples: Sequence[Tuple], expiries_ms: Sequence[int] | None = None) -> pa.BinaryArray:
        """The stored form of each tuple; expiries (milliseconds) are needed exactly if the codec has them."""
        return self.pack_columns(columns_of(tuples, self._schema), len(tuples), expiries_ms)

    def pack_columns(
        self, columns: Sequence[pa.Array], rows: int, expiries_ms: Sequence[int] | pa.Int64Array | None = None
    ) -> pa.BinaryArray:
        """The stored form of tuples given as columns in Spark's inner form."""
        prefixes = np.zeros(rows, dtype=self._prefix)
        prefixes["version"] = len(self._codecs)
        if self._expires:
            prefixes["expiry"] = expiries_ms
        return binary.join([binary.rows_of(prefixes), self._codecs[-1].pack_columns(columns, rows)])

    def unpack(self, stored: pa.BinaryArray) -> tuple[list[Tuple], list[int]]:
        """The tuples and their expiries, of values that are not null. Errors as `unpack_columns`."""
        columns, expiries = self.unpack_columns(stored)
        return tuples_of(columns, len(stored)), expiries

    def unpack_columns(self, stored: pa.BinaryArray) -> tuple[list[pa.Array], list[int]]:
        """The columns of the tuples and their expiries, of values that are not null.

        Raises:
            LogDamaged: no tuple has this form.
        """
        width = self._prefix.itemsize
        bounds = binary.offsets(stored)
        starts, stops = bounds[:-1], bounds[1:]
        if len(stored) and int((stops - starts).min()) < width:
            raise LogDamaged(
                f"a value of {int((stops - starts).min())} bytes where a state variable has at least {width}"
            )
        heads = binary.contiguous(binary.pieces(binary.data(stored), starts, starts + width)).view(self._prefix)
        packed = binary.pieces(binary.data(stored), starts + width, stops)
        expiries = heads["expiry"].tolist() if self._expires else [NEVER_MS] * len(stored)
        return self._columns(heads["version"], packed), expiries

    def _columns(self, versions: IntArray, packed: pa.BinaryArray) -> list[pa.Array]:
        newest = len(self._codecs)
        parts = []
        for version, places in by_version(versions, newest):
            codec = self._codecs[version - 1]
            columns = codec.unpack_columns(packed if len(places) == len(packed) else packed.take(pa.array(places)))
            parts.append((places, project(columns, codec.schema, self._schema, len(places))))
        return in_order(parts) if parts else self._codecs[-1].unpack_columns(packed)
