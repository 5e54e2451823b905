"""Rows of a state variable whose schema has changed: read with the schema that wrote them, and projected to the newest one.

Schemas are numbered from 1 in the order in which a query had them; every stored tuple begins with its schema's number. The rules by
which one schema can be read as another are those of Avro's schema resolution, which Spark applies to states that it encodes with Avro:
columns are known by name, at any depth; a new one is null in old rows, one that was removed is skipped, a number becomes a wider one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.errors import LogDamaged
from binshift.model import IntArray

VERSION = np.dtype(">u2")
"""Of the number of a schema, at the beginning of every stored tuple."""

_WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""Each number fits, as Avro has it, the types behind its own."""


def is_readable(was: pa.DataType, now: pa.DataType) -> bool:
    """Whether values of one type can be read as another one; both as Spark has them inside.

    >>> is_readable(pa.int32(), pa.float64()), is_readable(pa.int64(), pa.int32())
    (True, False)
    >>> is_readable(pa.struct([("a", pa.int32())]), pa.struct([("b", pa.string()), ("a", pa.int64())]))
    True
    """
    if was in _WIDTHS and now in _WIDTHS:
        return _WIDTHS.index(was) <= _WIDTHS.index(now)
    if pa.types.is_struct(was) and pa.types.is_struct(now):
        return _fields_readable(list(was), list(now))
    if pa.types.is_list(was) and pa.types.is_list(now):
        return is_readable(was.value_type, now.value_type)
    if pa.types.is_map(was) and pa.types.is_map(now):
        return was.key_type == now.key_type and is_readable(was.item_type, now.item_type)
    return bool(was == now or (was == pa.string() and now == pa.binary()))


def is_schema_readable(was: pa.Schema, now: pa.Schema) -> bool:
    """`is_readable` for whole rows."""
    return _fields_readable(list(was), list(now))


def _fields_readable(was: Sequence[pa.Field], now: Sequence[pa.Field]) -> bool:
    types = {field.name: field.type for field in was}
    return all(field.name not in types or is_readable(types[field.name], field.type) for field in now)


def project(columns: Sequence[pa.Array], was: pa.Schema, now: pa.Schema, rows: int) -> list[pa.Array]:
    """Columns of a readable schema as those of another one."""
    return list(_projected(dict(zip(was.names, columns, strict=True)), list(now), rows))


def _projected(columns: dict[str, pa.Array], now: Sequence[pa.Field], rows: int) -> Iterator[pa.Array]:
    for field in now:
        yield _as(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)


def _as(array: pa.Array, now: pa.DataType) -> pa.Array:
    was = array.type
    if was == now:
        return array
    if pa.types.is_struct(was):
        fields = {field.name: array.field(at) for at, field in enumerate(was)}
        return _nested(array, now, [], list(_projected(fields, list(now), len(array))))
    if pa.types.is_list(was):
        return _nested(array, now, [pa.py_buffer(array.offsets.to_numpy())], [_as(array.values, now.value_type)])
    if pa.types.is_map(was):
        keys, items = array.keys, _as(array.items, now.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[now.key_field, now.item_field])
        return _nested(array, now, [pa.py_buffer(array.offsets.to_numpy())], [entries])
    return array.cast(now, safe=False)


def _nested(array: pa.Array, type: pa.DataType, buffers: list[pa.Buffer], parts: list[pa.Array]) -> pa.Array:
    return pa.Array.from_buffers(type, len(array), [binary.validity(binary.valid(array)), *buffers], children=parts)


def by_version(versions: npt.NDArray[np.integer[Any]], newest: int) -> Iterator[tuple[int, IntArray]]:
    """The numbers of schemas among those of some rows, each with the positions of its rows.

    Raises:
        LogDamaged: a number is not that of a schema.
    """
    if (versions == newest).all():  # almost always
        if len(versions):
            yield newest, np.arange(len(versions), dtype=np.int32)
        return
    for each in np.unique(versions).tolist():
        if not 1 <= each <= newest:
            raise LogDamaged(
                f"a value of schema version {each} of a state variable with {newest}: a newer binshift has written it, or a file "
                "of the log's schemas is missing"
            )
        yield each, np.flatnonzero(versions == each).astype(np.int32)


def in_order(parts: Sequence[tuple[IntArray, list[pa.Array]]]) -> list[pa.Array]:
    """Columns of parts, whose rows have positions, as columns in the order of these."""
    if len(parts) == 1:
        return parts[0][1]
    order = pc.sort_indices(pa.array(np.concatenate([places for places, _ in parts])))
    return [pa.concat_arrays(each).take(order) for each in zip(*(columns for _, columns in parts), strict=True)]
