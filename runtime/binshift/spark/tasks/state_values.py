"""The values of a state: Python's in a user's function, Arrow's in the store.

A function sets a state to a tuple of Python values and gets one back. Which values a column accepts, and what becomes of others,
are the rules of Spark's ``EvaluatePython``: a value of another type is null, whole numbers are cut to their column's width, anything can
become a string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    Row,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from binshift.errors import UserFunctionFailed
from binshift.spark.tasks.user_rows import row_maker

Convert = Callable[[Any], Any]

WHOLE_NUMBER_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


class StateValues:
    """Converts states of one schema.

    Args:
        schema: of the states.
    """

    def __init__(self, schema: StructType) -> None:
        self._schema = schema
        self._stored = [stored(field.dataType) for field in schema]
        self._given = [given(field.dataType) for field in schema]

    def rows(self, values: pa.RecordBatch) -> list[Any]:
        """Each state as a tuple of Python values, as Spark gives it to a function."""
        columns = []
        for column, convert in zip(values.columns, self._given, strict=True):
            plain = column.to_pylist()
            columns.append(plain if convert is None else [None if v is None else convert(v) for v in plain])
        return list(zip(*columns, strict=True)) if columns else [()] * values.num_rows

    def columns(self, states: Sequence[Sequence[Any] | None], schema: pa.Schema) -> pa.RecordBatch:
        """The columns of the states that a function has set, in the types of ``schema``; null where there is none.

        Raises:
            UserFunctionFailed: a state has another number of values than its schema.
        """
        absent = (None,) * len(self._schema)
        internal = [absent if state is None else self._internal(state) for state in states]
        columns = zip(*internal, strict=True) if states else [()] * len(self._schema)
        arrays = [
            pa.array([None if v is None else convert(v) for v in column], field.type)
            for column, convert, field in zip(columns, self._stored, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _internal(self, state: Sequence[Any]) -> Sequence[Any]:
        if len(state) != len(self._schema):
            raise UserFunctionFailed(
                "[STRUCT_ARRAY_LENGTH_MISMATCH] Input row doesn't have expected number of values required by the schema. "
                f"{len(self._schema)} fields are required while {len(state)} values are provided"
            )
        values: Sequence[Any] = self._schema.toInternal(Row(*state))
        return values


def stored(type: DataType) -> Convert:
    """From one of Spark's internal values in Python, which is not None, to what Arrow accepts for the type."""
    if isinstance(type, BooleanType):
        return lambda value: value if value.__class__ is bool else None
    for kind, bits in WHOLE_NUMBER_BITS.items():
        if isinstance(type, kind):
            return _whole_number(bits)
    if isinstance(type, FloatType | DoubleType):
        return lambda value: value if value.__class__ is float else None
    if isinstance(type, DecimalType):
        return _decimal(type)
    if isinstance(type, StringType):
        return lambda value: value if value.__class__ is str else _text(value)
    if isinstance(type, BinaryType):
        return _bytes
    return _stored_nested(type)


def _stored_nested(type: DataType) -> Convert:
    if isinstance(type, ArrayType):
        element = stored(type.elementType)
        return lambda value: (
            [None if v is None else element(v) for v in value] if isinstance(value, list | tuple) else None
        )
    if isinstance(type, MapType):
        key, item = stored(type.keyType), stored(type.valueType)
        return lambda value: (
            [(key(k), None if v is None else item(v)) for k, v in value.items()] if isinstance(value, dict) else None
        )
    if isinstance(type, StructType):
        fields = [(field.name, stored(field.dataType)) for field in type]
        return lambda value: {
            name: None if v is None else convert(v) for (name, convert), v in zip(fields, value, strict=True)
        }
    return lambda value: value if value.__class__ is int else None  # dates, times and intervals


def given(type: DataType) -> Convert | None:
    """From what Arrow has in Python, which is not None, to what Spark gives to a function; None if it is the same."""
    if isinstance(type, TimestampType):  # in the local time of the process
        return lambda value: value.astimezone().replace(tzinfo=None)
    if isinstance(type, ArrayType):
        element = given(type.elementType)
        return None if element is None else lambda value: [None if v is None else element(v) for v in value]
    if isinstance(type, MapType):
        key, item = given(type.keyType) or _same, given(type.valueType) or _same
        return lambda value: {key(k): None if v is None else item(v) for k, v in value}
    if isinstance(type, StructType):
        make, fields = row_maker(type.names), [given(field.dataType) or _same for field in type]
        return lambda value: make(
            None if v is None else convert(v) for convert, v in zip(fields, value.values(), strict=True)
        )
    return None


def _same(value: Any) -> Any:
    return value


def _whole_number(bits: int) -> Convert:
    half, whole = 1 << (bits - 1), 1 << bits

    def convert(value: Any) -> int | None:
        if value.__class__ is not int or not -(1 << 63) <= value < 1 << 63:
            return None
        return int((value + half) % whole - half)

    return convert


def _decimal(type: DecimalType) -> Convert:
    unit = Decimal(1).scaleb(-type.scale)
    return lambda value: value.quantize(unit, ROUND_HALF_UP) if isinstance(value, Decimal) else None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytes | bytearray) else None
