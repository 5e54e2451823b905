"""The rows that a join keeps, as bytes in the store.

The rows of one key on one side are a *list*, which is stored in chunks: a *head*, to which rows are appended, and *sealed* chunks
with earlier rows, which only lose rows. The head also has the numbers of the list's sealed chunks. A short list is therefore one
row of the store. The key of a chunk, called its *name* without the space, is the packed key, a byte for the side, and 8 bytes of
the chunk's number, 0 for the head. Its value is

    rows and runs: u4, u4 | runs of numbers: first u8, stop u8 | rows: expiry i8, bytes u4, matched u1 | the packed rows

This module has no state. It must never visit a chunk or a row in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.binary import BoolArray
from binshift.errors import LogDamaged
from binshift.model import IntArray
from binshift.operators.expiry import time_bytes
from binshift.operators.first_times import TIME_BYTES, times_of
from binshift.operators.session_rows import Int64s, runs

NEVER: Final = np.iinfo(np.int64).max
"""The expiry of a row that is kept forever."""

HEAD: Final = 0
"""The number of a list's head; sealed chunks are numbered from 1."""

CHUNK_ROWS_MAX = 64
"""Rows of a chunk."""

CHUNK_BYTES_MAX = 16 << 10
"""Bytes of a chunk's rows, which its last row may exceed."""

_COUNTS = np.dtype([("rows", "<u4"), ("runs", "<u4")])
_RUN = np.dtype([("first", "<u8"), ("stop", "<u8")])
_META = np.dtype([("expiry", "<i8"), ("bytes", "<u4"), ("matched", "u1")])
_NOTHING = np.zeros(1, dtype=_COUNTS).tobytes()
_SUFFIX_BYTES = 1 + TIME_BYTES


@dataclass(frozen=True)
class Rows:
    """Stored rows, or rows to store: the number of each one's chunk (or list), its expiry, whether it was matched, its bytes."""

    chunk: Int64s
    expiry: Int64s
    matched: BoolArray
    packed: pa.BinaryArray

    def take(self, at: Int64s) -> Rows:
        """Some of them, in this order."""
        return Rows(self.chunk[at], self.expiry[at], self.matched[at], self.packed.take(pa.array(at)))

    def renumbered(self, chunk: Int64s) -> Rows:
        """The same rows in other chunks."""
        return Rows(chunk, self.expiry, self.matched, self.packed)

    @staticmethod
    def concat(parts: Sequence[Rows]) -> Rows:
        """The rows of all parts."""
        expiry, matched = (np.concatenate([getattr(each, name) for each in parts]) for name in ("expiry", "matched"))
        chunk = np.concatenate([each.chunk for each in parts])
        return Rows(chunk, expiry, matched, pa.concat_arrays([each.packed for each in parts]))


@dataclass(frozen=True)
class Numbers:
    """The numbers of sealed chunks, ascending by list and number."""

    list: Int64s
    number: Int64s

    def only(self, which: BoolArray) -> Numbers:
        """Some of them."""
        return Numbers(self.list[which], self.number[which])

    def within(self, others: Numbers) -> BoolArray:
        """Which of these are among the others."""
        span = int(max(self.number.max(initial=0), others.number.max(initial=0))) + 1
        return np.isin(self.list * span + self.number, others.list * span + others.number)

    @staticmethod
    def concat(parts: Sequence[Numbers]) -> Numbers:
        """The numbers of all parts."""
        list, number = (np.concatenate([getattr(each, name) for each in parts]) for name in ("list", "number"))
        order = np.lexsort((number, list))
        return Numbers(list[order], number[order])


@dataclass(frozen=True)
class Lists:
    """Some keys, each with two lists: list ``2 * key + side``."""

    bins: IntArray
    keys: pa.BinaryArray

    def bins_of(self, list: Int64s) -> IntArray:
        """The bins of lists."""
        bins: IntArray = self.bins[list >> 1]
        return bins

    def names(self, list: Int64s, number: Int64s) -> pa.BinaryArray:
        """The names of chunks."""
        sides = binary.rows_of((list & 1).astype(np.uint8))
        return binary.join([self.keys.take(pa.array(list >> 1)), sides, time_bytes(pa.array(number, pa.int64()))])

    @staticmethod
    def of(bins: IntArray, names: pa.BinaryArray) -> tuple[Lists, Int64s, Int64s]:
        """The lists of these chunks; the list and the number of each chunk."""
        keys = pc.binary_slice(names, 0, -_SUFFIX_BYTES).dictionary_encode()
        key: Int64s = keys.indices.to_numpy().astype(np.int64)
        side = binary.contiguous(pc.binary_slice(names, -_SUFFIX_BYTES, -TIME_BYTES))
        longest = pc.max(pc.binary_length(names)).as_py() or _SUFFIX_BYTES
        number = times_of(binary.contiguous(pc.binary_slice(names, -TIME_BYTES, longest)))
        lists = Lists(bins[np.unique(key, return_index=True)[1]], keys.dictionary)
        return lists, 2 * key + side, number


def decode(values: pa.BinaryArray) -> tuple[Rows, Numbers]:
    """The rows of chunks, and the numbers in heads; chunks and lists are positions in ``values``. Null is a head without rows.

    Raises:
        LogDamaged: these bytes are not a chunk.
    """
    filled = values.fill_null(_NOTHING) if values.null_count else values
    content, bounds = binary.data(filled), binary.offsets(filled)
    starts, stops = bounds[:-1], bounds[1:]
    begins = starts + _COUNTS.itemsize
    _check(bool((begins <= stops).all()))
    counts = _part(content, starts, begins, _COUNTS)
    rows, run_counts = counts["rows"].astype(np.int64), counts["runs"].astype(np.int64)
    middles = begins + run_counts * _RUN.itemsize
    tails = middles + rows * _META.itemsize
    _check(bool((tails <= stops).all()))
    metas = _part(content, middles, tails, _META)
    row_bounds = _bounds(metas["bytes"])
    _check(bool((np.diff(row_bounds[_bounds(rows)]) == stops - tails).all()))
    packed = pa.py_buffer(binary.contiguous(binary.pieces(content, tails, stops)))
    found = Rows(
        np.repeat(np.arange(len(values)), rows),
        metas["expiry"].astype(np.int64),
        metas["matched"].astype(np.bool_),
        binary.build(row_bounds, packed),
    )
    return found, _expanded(_part(content, begins, middles, _RUN), np.repeat(np.arange(len(values)), run_counts))


def encode(chunks: int, rows: Rows, numbers: Numbers) -> pa.BinaryArray:
    """The values of ``chunks`` chunks; rows ascend by chunk, and a chunk with numbers is the head of that list."""
    first = runs(
        numbers.list * (int(numbers.number.max(initial=0)) + 2) + numbers.number - np.arange(len(numbers.list))
    )
    found = np.zeros(len(first), dtype=_RUN)
    found["first"] = numbers.number[first]
    found["stop"] = found["first"] + np.diff(np.append(first, len(numbers.list))).astype(np.uint64)
    counts = np.zeros(chunks, dtype=_COUNTS)
    counts["rows"] = np.bincount(rows.chunk, minlength=chunks)
    counts["runs"] = np.bincount(numbers.list[first], minlength=chunks)
    metas = np.zeros(len(rows.chunk), dtype=_META)
    metas["expiry"], metas["matched"], metas["bytes"] = rows.expiry, rows.matched, binary.lengths(rows.packed)
    ends = _bounds(counts["rows"])
    return binary.join(
        [
            binary.rows_of(counts),
            binary.build(_bounds(counts["runs"]) * _RUN.itemsize, _buffer(found)),
            binary.build(ends * _META.itemsize, _buffer(metas)),
            binary.build(binary.offsets(rows.packed)[ends], binary.data(rows.packed)),
        ]
    )


def cut(list: Int64s, bytes: npt.NDArray[np.integer[Any]]) -> Int64s:
    """For each row the number of the chunk that it is in, where rows ascend by list and a list begins with a chunk.

    >>> cut(np.array([0, 0, 1]), np.array([9, CHUNK_BYTES_MAX, 1])).tolist()
    [0, 0, 1]
    """
    first = runs(list)
    start = np.repeat(first, np.diff(np.append(first, len(list))))
    row = (np.arange(len(list)) - start) // CHUNK_ROWS_MAX
    before = np.cumsum(bytes + _META.itemsize, dtype=np.int64) - bytes - _META.itemsize
    size = (before - before[start + row * CHUNK_ROWS_MAX]) // CHUNK_BYTES_MAX
    begins = np.ones(len(list), dtype=np.bool_)
    for each in (list, row, size):
        begins[1:] &= each[1:] == each[:-1]
    begins[1:] = ~begins[1:]
    return np.cumsum(begins, dtype=np.int64) - 1


def _expanded(found: npt.NDArray[np.void], list: Int64s) -> Numbers:
    """Every number in these runs."""
    lengths = (found["stop"] - found["first"]).astype(np.int64)
    ends = np.cumsum(lengths)
    offset = np.repeat(found["first"].astype(np.int64) - (ends - lengths), lengths)
    return Numbers(np.repeat(list, lengths), offset + np.arange(len(offset)))


def _part(content: pa.Buffer, starts: Int64s, stops: Int64s, dtype: np.dtype[Any]) -> npt.NDArray[np.void]:
    found: npt.NDArray[np.void] = binary.contiguous(binary.pieces(content, starts, stops)).view(dtype)
    return found


def _bounds(lengths: npt.NDArray[np.integer[Any]]) -> Int64s:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def _buffer(array: npt.NDArray[np.void]) -> pa.Buffer:
    return pa.py_buffer(array.view(np.uint8) if len(array) else b"")


def _check(fits: bool) -> None:
    if not fits:
        raise LogDamaged(
            "the packed rows of a join are damaged: a chunk has other lengths than it states. It was altered; discard the "
            "local store, and restart the query"
        )
