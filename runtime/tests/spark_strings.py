"""Strings as Spark has them, for tests: any bytes, UTF-8 or not. In Python they are bytes, because `str` cannot hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

NOT_UTF8 = (b"\xff", b"a\xff", b"\xc3", b"\xed\xa0\x80", b"\x80b")
"""Strings that are not UTF-8: an invalid byte, a truncated character, a surrogate, a lone continuation byte."""


def texts(max_size: int) -> st.SearchStrategy[bytes]:
    """Strings, as bytes: text, truncated text, and bytes that are not text."""
    return st.text(max_size=max_size).map(str.encode) | st.binary(max_size=max_size) | st.sampled_from(NOT_UTF8)


def as_bytes(type: pa.DataType) -> pa.DataType:
    """The type with binary in the place of string, at any depth."""
    if pa.types.is_string(type):
        return pa.binary()
    if pa.types.is_large_string(type):
        return pa.large_binary()
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(as_bytes(field.type)) for field in type])
    if pa.types.is_map(type):
        return pa.map_(as_bytes(type.key_type), type.item_field.with_type(as_bytes(type.item_type)))
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(as_bytes(type.value_type)))
    if pa.types.is_large_list(type):
        return pa.large_list(type.value_field.with_type(as_bytes(type.value_type)))
    return type


def column(type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """The array of these values, strings among them given as bytes."""
    return _retyped(pa.array(values, as_bytes(type)), type)


def values(array: pa.Array) -> list[Any]:
    """The array's values, strings among them as bytes."""
    whole = array.take(pa.array(range(len(array)), pa.int64()))  # a slice's children begin elsewhere
    found: list[Any] = _retyped(whole, as_bytes(array.type)).to_pylist()
    return found


def _retyped(array: pa.Array, type: pa.DataType) -> pa.Array:
    """The array, no slice, with strings as binary or the reverse, at any depth. Arrow's `view` and `cast` lose rows of nested arrays."""
    if array.type == type:
        return array
    if pa.types.is_struct(type):
        parts = [_retyped(array.field(at), field.type) for at, field in enumerate(type)]
        return pa.StructArray.from_arrays(parts, fields=list(type), mask=array.is_null())
    if pa.types.is_map(type):
        keys, items = _retyped(array.keys, type.key_type), _retyped(array.items, type.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=type, mask=array.is_null())
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        kind = pa.ListArray if pa.types.is_list(type) else pa.LargeListArray
        return kind.from_arrays(array.offsets, _retyped(array.values, type.value_type), type=type, mask=array.is_null())
    return array.view(type)
