"""The types of keys: which ones the state has, what Spark refuses, and what rows with equal keys have in common."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from binshift.errors import Unsupported
from binshift.spark.stages.statetypes import is_storable

SPARKS_REFUSAL = (
    "[STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY] Binary inequality column is not supported with state store. "
)
"""Spark's own error for keys with a collation, which its state store cannot keep."""


def check_keys(what: str, fields: Sequence[StructField]) -> None:
    """Refuse keys that Spark refuses, or that the state cannot have.

    Args:
        what: begins the message, for example "dropDuplicates".
        fields: the keys, by the names that the user knows.

    Raises:
        UnsupportedOperationException: Spark's own, for strings with a collation.
        Unsupported: a type that has no form outside the JVM.
    """
    if any(_is_collated(each.dataType) for each in fields):
        raise UnsupportedOperationException(f"{SPARKS_REFUSAL}Provided schema: {StructType(list(fields)).json()}.")
    for each in fields:
        if not is_key(each.dataType):
            raise Unsupported(
                f"{what} {each.name}: a key of type {each.dataType.simpleString()}; use a string made of it"
            )


def is_key(type: DataType) -> bool:
    """Whether the state can have keys of a type, which are equal if and only if their bytes are."""
    match type:
        case StructType():
            return all(is_key(field.dataType) for field in type)
        case ArrayType():
            return is_key(type.elementType)
        case MapType():
            return is_key(type.keyType) and is_key(type.valueType)
        case _:
            return isinstance(type, NullType) or is_storable(type)


def hashable(column: Column, type: DataType) -> Column:
    """A key in a form that Spark hashes and sorts: sorted maps, which have neither, become lists of entries."""
    if not _has_map(type):
        return column
    match type:
        case StructType():
            parts = [hashable(column.getField(field.name), field.dataType).alias(field.name) for field in type]
            return F.when(column.isNotNull(), F.struct(*parts))
        case ArrayType():
            return F.transform(column, lambda each: hashable(each, type.elementType))
        case MapType():
            entries = F.map_entries(column)
            return F.transform(
                entries,
                lambda each: F.struct(hashable(each["key"], type.keyType), hashable(each["value"], type.valueType)),
            )
        case _:
            return column


def _has_map(type: DataType) -> bool:
    return isinstance(type, MapType) or any(_has_map(each) for each in _parts(type))


def _is_collated(type: DataType) -> bool:
    if isinstance(type, StringType):
        return not type.isUTF8BinaryCollation()
    return any(_is_collated(each) for each in _parts(type))


def _parts(type: DataType) -> list[DataType]:
    match type:
        case StructType():
            return [field.dataType for field in type]
        case ArrayType():
            return [type.elementType]
        case MapType():
            return [type.keyType, type.valueType]
        case _:
            return []
