"""Sessions as columns: which of them belong together, their merged buffers, and the directory of a key's sessions.

This module has the arithmetic of `binshift.operators.sessions`, without state. Sessions are sorted by (key, start), keys being
numbers that ascend, and times are microseconds since 1970. It must never visit a session in Python.

The *directory* of a key is the list of the starts of its stored sessions, ascending: 8 bytes each. It replaces the search for a
key's sessions in the store, which would cost one seek per key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binshift import binary
from binshift.operators.expiry import time_bytes
from binshift.operators.first_times import TIME_BYTES, times_of
from binshift.operators.merge import MergeSpec, merge

Int64s = npt.NDArray[np.int64]


def runs(values: npt.NDArray[np.generic]) -> Int64s:
    """The positions where a run of equal values starts."""
    begins = np.ones(len(values), dtype=np.bool_)
    begins[1:] = values[1:] != values[:-1]
    return np.flatnonzero(begins)


def joined(key: Int64s, start: Int64s, end: Int64s) -> Int64s:
    """For each session the number of the session that it is a part of; the parts of one are successive.

    A session is a part of the one before it if it starts at or before the latest end of that one's parts (Spark's
    ``MergingSessionsIterator``): sessions that only touch are one.

    >>> joined(np.array([0, 0, 0, 1]), np.array([1, 5, 9, 9]), np.array([5, 6, 10, 12])).tolist()
    [0, 0, 1, 2]
    """
    times, rank = np.unique(end, return_inverse=True)
    # The latest end so far within the key: numbers of a later key are greater than all of an earlier one.
    latest = times[np.maximum.accumulate(key * len(times) + rank) % max(len(times), 1)]
    begins = np.ones(len(key), dtype=np.bool_)
    begins[1:] = (key[1:] != key[:-1]) | (start[1:] > latest[:-1])
    return np.cumsum(begins, dtype=np.int64) - 1


def fold(merges: Sequence[MergeSpec], buffers: pa.RecordBatch, group: Int64s) -> pa.RecordBatch:
    """The buffers of each group's rows merged in their order, one row per group; ``group`` ascends.

    Neighbours are merged pairwise until one row is left of each group: a logarithmic number of passes.
    """
    while True:
        first = runs(group)
        if len(first) == len(group):
            return buffers
        place = np.arange(len(group)) - np.repeat(first, np.diff(np.append(first, len(group))))
        kept = np.flatnonzero(place % 2 == 0)
        follows = np.append(group[1:] == group[:-1], False)
        left = np.flatnonzero((place % 2 == 0) & follows)
        merged = merge(merges, buffers.take(pa.array(left)), buffers.take(pa.array(left + 1)))
        source = np.arange(len(group))
        source[left] = len(group) + np.arange(len(left))
        buffers = pa.concat_batches([buffers, merged]).take(pa.array(source[kept]))
        group = group[kept]


def directories(key: Int64s, start: Int64s, keys: int) -> pa.BinaryArray:
    """The directory of each of ``keys`` keys, null for a key without sessions."""
    counts = np.bincount(key, minlength=keys)
    bounds = np.concatenate(([0], np.cumsum(counts))) * TIME_BYTES
    content = pa.py_buffer(binary.contiguous(time_bytes(pa.array(start, pa.int64()))))
    return binary.build(bounds, content, counts > 0)


def entries_of(found: pa.BinaryArray) -> tuple[Int64s, Int64s]:
    """The (number of the key, start) of each session in these directories, in their order."""
    lengths = binary.lengths(found).astype(np.int64)
    filled = found.fill_null(b"") if found.null_count else found
    return np.repeat(np.arange(len(found)), lengths // TIME_BYTES), times_of(binary.contiguous(filled))
