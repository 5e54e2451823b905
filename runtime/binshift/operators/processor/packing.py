"""Packs single keys of a map: the bytes that `RowCodec` makes of a batch with that one row.

A codec works on batches and takes some fifty microseconds for a single row. Keys of plain columns are packed without it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from binshift.operators.processor.variables import Tuple, columns_of
from binshift.rows import RowCodec

CACHED_KEYS_MAX = 4096

_CODES = {
    pa.bool_(): "?",
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.float64(): "d",
}
_NAN = struct.unpack("<d", b"\x00\x00\x00\x00\x00\x00\xf8\x7f")[0]


def key_packer(codec: RowCodec) -> Callable[[Tuple], bytes]:
    """Packs tuples in Spark's inner form, each as the codec would."""
    types = codec.schema.types
    if all(type in _CODES or _is_bytes(type) for type in types) and 0 < len(types) <= 8:
        return _plain(types)

    def slow(values: Tuple) -> bytes:
        packed: bytes = codec.pack_columns(columns_of([values], codec.schema), 1)[0].as_py()
        return packed

    return slow


def _is_bytes(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_binary(type))


def _plain(types: list[pa.DataType]) -> Callable[[Tuple], bytes]:
    fixed = struct.Struct("<B" + "".join("I" if _is_bytes(type) else _CODES[type] for type in types))
    floats = [pa.types.is_floating(type) for type in types]
    variable = [_is_bytes(type) for type in types]

    @lru_cache(maxsize=CACHED_KEYS_MAX, typed=True)
    def pack(values: Tuple) -> bytes:
        nulls, parts, tails = 0, list[Any](), list[bytes]()
        for at, value in enumerate(values):
            if value is None:
                nulls |= 1 << at
                parts.append(0)
            elif variable[at]:
                tails.append(value.encode() if isinstance(value, str) else bytes(value))
                parts.append(len(tails[-1]))
            elif floats[at]:
                parts.append(_NAN if math.isnan(value) else value + 0.0)
            else:
                parts.append(value)
        return fixed.pack(nulls, *parts) + b"".join(tails)

    return pack
