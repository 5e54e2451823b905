"""Where a processor's state lies within a bin: the keys of its rows.

    00 variable key [rest]     a value, a chunk of a list, an entry of a map
    01 time variable key rest  when the row 00 variable key rest ends, or the earliest element of a list
    02 variable key            the header of a list
    03 time key                a timer, by time
    04 key                     all timers of a key

A variable is its number (2 bytes), a time 8 bytes that sort, and a key the packed grouping key behind its length (4 bytes), except
at the end of a row's key, where it needs none. Everything that belongs to a key is in the key's bin, so that it moves with it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.operators.contract import EXPIRY_SPACE, STATE_SPACE, TIMER_SPACE, without_space
from binshift.operators.expiry import time_bytes
from binshift.operators.first_times import TIME_BYTES

HEADER_SPACE = b"\x02"
"""First byte of the keys of headers."""

TIMERS_OF_KEY_SPACE = b"\x04"
"""First byte of the keys of rows that list a key's timers."""

VARIABLE_BYTES = 2
_LENGTH_BYTES = 4
_NOTHING = pa.scalar(b"", pa.binary())


def sized(packed: pa.BinaryArray) -> pa.BinaryArray:
    """Packed grouping keys behind their lengths: none is the beginning of another one."""
    lengths = binary.rows_of(binary.lengths(packed).astype(">u4"))
    return pc.binary_join_element_wise(lengths, packed, _NOTHING)


def variable_prefix(space: bytes, number: int) -> bytes:
    """How the keys of a variable's rows begin."""
    return space + number.to_bytes(VARIABLE_BYTES, "big")


def variable_keys(space: bytes, number: int, keys: pa.BinaryArray) -> pa.BinaryArray:
    """A row of a variable for each of the sized keys, with or without a rest behind them."""
    return pc.binary_join_element_wise(pa.scalar(variable_prefix(space, number), pa.binary()), keys, _NOTHING)


def with_rest(keys: pa.BinaryArray, rests: pa.BinaryArray) -> pa.BinaryArray:
    """Keys followed by what identifies a row among those of a key."""
    return pc.binary_join_element_wise(keys, rests, _NOTHING)


def numbered(numbers: pa.Int64Array) -> pa.BinaryArray:
    """Numbers as 8 bytes that sort."""
    return time_bytes(numbers)


def index_keys(times: pa.Int64Array, rows: pa.BinaryArray) -> pa.BinaryArray:
    """Index rows for rows of `STATE_SPACE`, which end at these times (milliseconds)."""
    return pc.binary_join_element_wise(
        pa.scalar(EXPIRY_SPACE, pa.binary()), time_bytes(times), without_space(rows), _NOTHING
    )


def indexed_key(index_key: bytes) -> bytes:
    """The row of `STATE_SPACE` that an index row stands for."""
    return STATE_SPACE + index_key[1 + TIME_BYTES :]


def variable_of(row_key: bytes) -> int:
    """The number of a row's variable."""
    return int.from_bytes(row_key[1 : 1 + VARIABLE_BYTES], "big")


def key_of(row_key: bytes) -> bytes:
    """The packed grouping key of a row of a variable."""
    start = 1 + VARIABLE_BYTES + _LENGTH_BYTES
    return row_key[start : start + int.from_bytes(row_key[1 + VARIABLE_BYTES : start], "big")]


def split_keys(rows: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """The packed grouping keys of rows of variables, and what follows them."""
    bounds, content = binary.offsets(rows), binary.data(rows)
    begin = bounds[:-1] + 1 + VARIABLE_BYTES + _LENGTH_BYTES
    sizes = binary.contiguous(binary.pieces(content, begin - _LENGTH_BYTES, begin)).view(">u4").astype(np.int64)
    return binary.pieces(content, begin, begin + sizes), binary.pieces(content, begin + sizes, bounds[1:])


def of_keys(rows: pa.BinaryArray, packed: pa.BinaryArray) -> binary.BoolArray:
    """Which of the rows belong to some grouping keys; index rows and timers by time do not count."""
    bounds, content = binary.offsets(rows), np.frombuffer(binary.data(rows), dtype=np.uint8)
    starts, stops = bounds[:-1], bounds[1:]
    spaces = content[starts]
    found = np.zeros(len(rows), dtype=np.bool_)
    whole = np.flatnonzero(spaces == TIMERS_OF_KEY_SPACE[0])
    named = np.flatnonzero((spaces == STATE_SPACE[0]) | (spaces == HEADER_SPACE[0]))
    lengths_at = starts[named] + 1 + VARIABLE_BYTES
    lengths = binary.pieces(binary.data(rows), lengths_at, lengths_at + _LENGTH_BYTES)
    begin = np.concatenate((starts[whole] + 1, lengths_at + _LENGTH_BYTES))
    sizes = binary.contiguous(lengths).view(">u4").astype(np.int64)
    end = np.concatenate((stops[whole], lengths_at + _LENGTH_BYTES + sizes))
    order = np.argsort(begin)
    keys = binary.pieces(binary.data(rows), begin[order], end[order])
    matches = pc.is_in(keys, value_set=packed).to_numpy(zero_copy_only=False)
    found[np.concatenate((whole, named))[order]] = matches
    return found


def timer_keys(times: pa.Int64Array, packed: pa.BinaryArray) -> pa.BinaryArray:
    """Timers by time: milliseconds, and packed grouping keys without their lengths."""
    return pc.binary_join_element_wise(pa.scalar(TIMER_SPACE, pa.binary()), time_bytes(times), packed, _NOTHING)


def end_of(prefix: bytes) -> bytes:
    r"""The first key behind all that begin with a prefix.

    >>> end_of(b"a\xff")
    b'b'
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1])
