"""A processor's rows for readers outside of it: values, elements and entries as columns, whatever schema wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary, entries
from binshift.entries import Entries
from binshift.operators.contract import STATE_SPACE
from binshift.operators.processor.chunks import ChunkCodec
from binshift.operators.processor.layout import key_of, rest_of, variable_prefix
from binshift.operators.processor.variables import Kind, TupleCodec, columns_of, inner_schema
from binshift.rows import RowCodec


@dataclass(frozen=True)
class VariableRows:
    """Rows of a variable, in Spark's inner form.

    Attributes:
        bins: of each row.
        keys: the columns of the grouping key and, of a map, its own key as a struct.
        values: the columns of a value.
        present: whether each has a value; of a deletion there is none.
    """

    bins: pa.Int32Array
    keys: list[pa.Array]
    values: list[pa.Array]
    present: binary.BoolArray


def decode_variable(
    found: Entries, number: int, kind: Kind, schemas: Sequence[pa.Schema], keys: pa.Schema, *, expires: bool
) -> VariableRows:
    """The rows of one variable among entries of `STATE_SPACE`.

    Elements of lists that have outlived their time to live are still stored until an epoch removes them, and are returned, as Spark
    does. A deleted chunk of a list has one row, without a value.

    Args:
        found: entries of any variable; a value of null is a deletion.
        number: of the variable.
        kind: of it.
        schemas: of its values, the newest last.
        keys: the columns of the key as a reader has them: the grouping key's, and of a map its own key as the last one.
        expires: whether it has a time to live.

    Raises:
        LogDamaged: an entry is not a row of the variable.
    """
    found = found.filter(pc.starts_with(found.column("key"), pattern=variable_prefix(STATE_SPACE, number)))
    inner, columns = [inner_schema(schema) for schema in schemas], inner_schema(keys)
    grouping = pa.schema(list(columns)[: len(columns) - (kind is Kind.MAP)])
    names = found.column("key").to_pylist()
    present = binary.valid(found.column("value"))
    unpacked = RowCodec(grouping).unpack_columns(binary.of([key_of(name) for name in names]))
    if kind is Kind.LIST:
        return _elements(found, present, unpacked, inner)
    if kind is Kind.MAP:
        own = columns.field(len(columns) - 1)
        parts = RowCodec(pa.schema(list(own.type))).unpack_columns(binary.of([rest_of(name) for name in names]))
        unpacked.append(pa.Array.from_buffers(own.type, len(names), [None], children=parts))
    places = np.cumsum(present) - 1
    values, _ = TupleCodec(inner, expires=expires).unpack_columns(found.column("value").drop_null())
    shown = [column.take(pa.array(places, mask=~present)) for column in values]
    return VariableRows(found.column("bin"), unpacked, shown, present)


def _elements(
    found: Entries, present: binary.BoolArray, keys: list[pa.Array], schemas: Sequence[pa.Schema]
) -> VariableRows:
    chunks = iter(ChunkCodec(schemas).unpack(found.column("value").drop_null()))
    elements = [next(chunks) if each else [(None, 0)] for each in present.tolist()]
    places = np.repeat(np.arange(len(elements), dtype=np.int32), [len(each) for each in elements])
    nothing = (None,) * len(schemas[-1])
    tuples = [nothing if values is None else values for chunk in elements for values, _ in chunk]
    return VariableRows(
        pa.array(entries.bins_array(found)[places]),
        [column.take(pa.array(places)) for column in keys],
        columns_of(tuples, schemas[-1]),
        present[places],
    )
