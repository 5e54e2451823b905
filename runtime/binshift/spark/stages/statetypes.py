"""The types of values that can be kept in the state, outside the JVM, and of values that can be compared there."""

from __future__ import annotations

from pyspark.sql import types

_ORDERED_TYPES = (
    types.BooleanType,
    types.NumericType,
    types.StringType,
    types.BinaryType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
    types.DayTimeIntervalType,
    types.TimeType,
)


def is_storable(type: types.DataType) -> bool:
    """Whether values of ``type`` can be kept in the state."""
    if isinstance(type, types.StructType):
        return all(is_storable(field.dataType) for field in type)
    if isinstance(type, types.ArrayType):
        return is_storable(type.elementType)
    if isinstance(type, types.StringType):
        return type.isUTF8BinaryCollation() and not isinstance(type, types.CharType | types.VarcharType)
    return isinstance(type, _ORDERED_TYPES)


def is_ordered(type: types.DataType) -> bool:
    """Whether values of ``type`` can be compared outside the JVM as Spark compares them."""
    return isinstance(type, _ORDERED_TYPES) and is_storable(type)
