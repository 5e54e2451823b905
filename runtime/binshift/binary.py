"""Arrow binary columns in terms of their memory layout: offsets and bytes.

This module owns the few places where a column of byte strings is split or assembled: rows and their columns, bins and keys,
lists and their elements. Each operation is a few C++ or NumPy passes; a Python loop over a hundred thousand values would cost
more than everything else an epoch does with them.

It must never return a view of memory that another owner may change, and never assume that an array starts at offset zero:
slices are common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift.errors import StateTooLarge
from binshift.model import IntArray

Offsets = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_EMPTY = pa.scalar(b"", pa.binary())

WORD_BYTES = 8
_SHARED_BYTES_MAX = 64
_MASKS = np.array([(1 << 64) - (1 << 8 * (WORD_BYTES - size)) for size in range(WORD_BYTES + 1)], dtype=np.uint64)
"""What is left of a word of which only the first so many bytes count."""


def offsets(array: pa.BinaryArray) -> Offsets:
    """The start of each value in `data`, followed by the end of the last one: one more than the number of values."""
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    raw = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return raw[array.offset : array.offset + len(array) + 1].astype(np.int64)


def lengths(array: pa.BinaryArray) -> IntArray:
    """Bytes of each value; 0 for null."""
    sizes = pc.binary_length(array)
    found: IntArray = (sizes.fill_null(0) if sizes.null_count else sizes).to_numpy(zero_copy_only=False)
    return found


def data(array: pa.BinaryArray) -> pa.Buffer:
    """The bytes that `offsets` point into."""
    return array.buffers()[2] or pa.py_buffer(b"")


def valid(array: pa.Array) -> BoolArray:
    """True where a value is not null."""
    if not array.null_count:
        return np.ones(len(array), dtype=np.bool_)
    found: BoolArray = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def validity(present: BoolArray) -> pa.Buffer | None:
    """The validity bitmap for ``present``; None (Arrow's "all valid") if nothing is missing."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def build(starts: npt.NDArray[np.integer[Any]], content: pa.Buffer, present: BoolArray | None = None) -> pa.BinaryArray:
    """The array whose values are in ``content`` at ``starts`` (as `offsets` returns them), without a copy.

    Raises:
        StateTooLarge: more than 2 GiB of bytes.
    """
    if starts[-1] > np.iinfo(np.int32).max:
        raise _too_large(int(starts[-1]))
    buffers = [None if present is None else validity(present), pa.py_buffer(starts.astype(np.int32)), content]
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, buffers)


def rows_of(matrix: npt.NDArray[Any]) -> pa.BinaryArray:
    """Each element of a contiguous one-dimensional array as its bytes in memory, without a copy."""
    width = matrix.dtype.itemsize
    content = pa.py_buffer(matrix.view(np.uint8) if matrix.size and width else b"")
    return build(np.arange(len(matrix) + 1, dtype=np.int64) * width, content)


def pieces(content: pa.Buffer, starts: Offsets, stops: Offsets) -> pa.BinaryArray:
    """``content[start:stop]`` for each pair, copied together. The pairs ascend and do not overlap."""
    if not len(starts):
        return pa.array([], pa.binary())
    # Pieces and the gaps between them are one valid array; taking every other value leaves the pieces, in C++.
    bounds = np.empty(2 * len(starts) + 1, dtype=np.int64)
    bounds[0:-1:2], bounds[1::2], bounds[-1] = starts, stops, stops[-1]
    return build(bounds, content).take(pa.array(np.arange(0, 2 * len(starts), 2)))


def contiguous(array: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    """The bytes of all values, concatenated; the array has no nulls."""
    bounds = offsets(array)
    return np.frombuffer(data(array), dtype=np.uint8)[bounds[0] : bounds[-1]]


def every_word(content: npt.NDArray[np.uint8], form: str) -> npt.NDArray[np.uint64]:
    """The eight bytes from each position on, the end included, as numbers of the form "<u8" or ">u8"; zeros follow the content."""
    padded = np.zeros(len(content) + WORD_BYTES, dtype=np.uint8)
    padded[: len(content)] = content
    return np.ndarray((len(content) + 1,), dtype=form, buffer=padded.data, strides=(1,))


def words(array: pa.BinaryArray) -> npt.NDArray[np.uint64] | None:
    """A number for each value; they compare as the values do. None if the values differ in too many bytes, or in late ones. No nulls."""
    bounds = offsets(array)
    starts, sizes = bounds[:-1] - bounds[0], np.diff(bounds)
    longest = int(sizes.max(initial=0))
    shortest = int(sizes.min(initial=longest))
    # The last byte of a word is then the size: a value is before each longer one that begins with it.
    uneven = shortest < longest
    if longest - WORD_BYTES + uneven > min(shortest, _SHARED_BYTES_MAX):
        return None
    content = contiguous(array)
    shared = max(0, longest - WORD_BYTES + uneven)
    if any(np.ptp(content[starts + at]) for at in range(shared)):
        return None
    every = every_word(content, ">u8")
    found: npt.NDArray[np.uint64] = every[starts + shared].astype(np.uint64) & _MASKS[sizes - shared]
    return found | (sizes - shared).astype(np.uint64) if uneven else found


def join(parts: Sequence[pa.BinaryArray]) -> pa.BinaryArray:
    """Row by row, the parts' values concatenated; null counts as empty.

    Raises:
        StateTooLarge: more than 2 GiB of bytes.
    """
    if len(parts) == 1:
        return parts[0]
    _check_total(parts)
    # Not null_handling="skip", which omits rows that are null in every part.
    filled = [part.fill_null(b"") if part.null_count else part for part in parts]
    return pc.binary_join_element_wise(*filled, _EMPTY)


def concat(parts: Sequence[pa.BinaryArray]) -> pa.BinaryArray:
    """The values of all parts, one after another.

    Raises:
        StateTooLarge: more than 2 GiB of bytes.
    """
    _check_total(parts)
    return pa.concat_arrays(parts)


def _check_total(parts: Sequence[pa.BinaryArray]) -> None:
    size = sum(int(lengths(part).sum(dtype=np.int64)) for part in parts)
    if size > np.iinfo(np.int32).max:
        raise _too_large(size)


def _too_large(size: int) -> StateTooLarge:
    return StateTooLarge(
        f"{size} bytes of rows in one batch exceed the 2 GiB one Arrow column can hold: use smaller batches "
        "(Spark's maxOffsetsPerTrigger or maxFilesPerTrigger) or more workers"
    )


def of(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """The array of these values.

    Raises:
        StateTooLarge: together more than 2 GiB.
    """
    array = pa.array(values, pa.binary())
    if isinstance(array, pa.ChunkedArray):
        raise _too_large(array.nbytes)
    return array
