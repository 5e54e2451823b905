"""Values of state variables as Python has them, and as they are stored: Spark's inner form.

PySpark sends a value to the JVM in its inner form (`DataType.toInternal`), and the JVM takes of it what fits the type: another kind of
value becomes null, a wide whole number is cut to the type's width, anything becomes a string. The same happens here, without the JVM.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql.streaming.stateful_processor_api_client import _load_numpy, _normalize_state_value
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
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
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from binshift.spark.tasks.state_values import WHOLE_NUMBER_BITS, Convert
from binshift.spark.tasks.user_rows import row_maker

_load_numpy()  # PySpark knows scalars of NumPy only after that

Tuple = tuple[Any, ...]

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_FLOAT = struct.Struct("<f")


def to_python(schema: StructType) -> Callable[[Tuple], Tuple] | None:
    """Converts a stored row to the values that the user gets; None if they are the same."""
    steps = [_given(field.dataType) for field in schema]
    if not any(steps):
        return None

    def convert(values: Tuple) -> Tuple:
        return tuple(
            [value if step is None or value is None else step(value) for step, value in zip(steps, values, strict=True)]
        )

    return convert


# ------------------------------------------------------------------------------------------------ what the JVM takes


def taken(type: DataType) -> Convert:
    """What the JVM makes of a value in PySpark's inner form."""
    match type:
        case LongType() | IntegerType() | ShortType() | ByteType():
            return _whole(WHOLE_NUMBER_BITS[type.__class__])
        case TimestampType() | TimestampNTZType() | DayTimeIntervalType():
            return _whole(64)
        case DateType():
            return _whole(32)
        case StringType() | CharType() | VarcharType():
            return _string
        case BooleanType():
            return _boolean
        case DoubleType():
            return _double
        case FloatType():
            return _single
        case DecimalType():
            return _decimal(type.precision, type.scale)
        case BinaryType():
            return _bytes
        case ArrayType() | MapType() | StructType():
            return _nested(type)
        case _:
            return lambda value: value


def _whole(bits: int) -> Convert:
    low, high, size = -(1 << (bits - 1)), (1 << (bits - 1)) - 1, 1 << bits

    def take(value: Any) -> int | None:
        if value.__class__ is int and low <= value <= high:
            found: int = value
            return found
        if value is None:
            return None
        value = _normalize_state_value(value)
        if value.__class__ is not int or not _LONG_MIN <= value <= _LONG_MAX:
            return None
        cut = int(value) % size
        return cut if cut <= high else cut - size

    return take


def _string(value: Any) -> str | None:
    if value is None or value.__class__ is str:
        return value
    value = _normalize_state_value(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _boolean(value: Any) -> bool | None:
    value = _normalize_state_value(value)
    return value if isinstance(value, bool) else None


def _double(value: Any) -> float | None:
    if value.__class__ is float:
        found: float = value
        return found
    value = _normalize_state_value(value)
    return value if isinstance(value, float) else None


def _single(value: Any) -> float | None:
    double = _double(value)
    if double is None:
        return None
    try:
        single: float = _FLOAT.unpack(_FLOAT.pack(double))[0]
    except OverflowError:
        return float("inf") if double > 0 else float("-inf")
    return single


def _decimal(precision: int, scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)

    def take(value: Any) -> Decimal | None:
        value = _normalize_state_value(value)
        if not isinstance(value, Decimal) or not value.is_finite():
            return None
        with localcontext(prec=76, rounding="ROUND_HALF_UP"):
            rounded = value.quantize(unit)
        return rounded if len(rounded.as_tuple().digits) <= precision or not rounded else None

    return take


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return value.encode() if isinstance(value, str) else None


def _nested(type: ArrayType | MapType | StructType) -> Convert:
    match type:
        case ArrayType():
            element = taken(type.elementType)
            return lambda value: [element(each) for each in _normalize_state_value(value)] if _is_list(value) else None
        case MapType():
            key, item = taken(type.keyType), taken(type.valueType)
            return lambda value: (
                [(key(at), item(each)) for at, each in _normalize_state_value(value).items()]
                if isinstance(value, dict)
                else None
            )
        case StructType():
            fields = [taken(field.dataType) for field in type]
            names = type.names

            def take(value: Any) -> dict[str, Any] | None:
                if not isinstance(value, tuple | list) or len(value) != len(fields):
                    return None
                given = zip(names, fields, _normalize_state_value(value), strict=True)
                return {name: field(each) for name, field, each in given}

            return take


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or (hasattr(value, "tolist") and not isinstance(value, np.generic))


# ------------------------------------------------------------------------------------------------ what the user gets


def _given(type: DataType) -> Convert | None:
    match type:
        case ArrayType():
            element = _given(type.elementType)
            return None if element is None else partial(_each, element)
        case MapType():
            return partial(_entries, _given(type.keyType), _given(type.valueType))
        case StructType():
            return partial(_row, row_maker(type.names), [_given(field.dataType) for field in type])
        case _:
            return type.fromInternal if type.needConversion() else None


def _each(element: Convert, values: Sequence[Any]) -> list[Any]:
    return [None if value is None else element(value) for value in values]


def _entries(key: Convert | None, item: Convert | None, entries: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    return {
        at if key is None else key(at): each if item is None or each is None else item(each) for at, each in entries
    }


def _row(make: Callable[[Iterable[Any]], Row], fields: Sequence[Convert | None], values: dict[str, Any]) -> Row:
    return make(
        value if field is None or value is None else field(value)
        for field, value in zip(fields, values.values(), strict=True)
    )
