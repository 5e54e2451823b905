"""The first time in each bin of an ordered index: which bins have something due, without a read of every bin.

An index is a space of keys that begin with a time: the space's byte, then the time as 8 bytes that sort by it. To ask each bin
for its first row takes a seek per bin, 10 ms for 4,096 bins, in every epoch. A worker process therefore keeps the answers from
one epoch to the next and applies each epoch's changes to them. They hold for one state of a store only: the owner
discards them if the store has another stamp than they were left with.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift.entries import Entries, bins_array
from binshift.model import Bin, BinSet, IntArray

TIME_BYTES = 8
"""Bytes of a time in a key."""

TIME_OFFSET = 1 << 63
"""Added to signed milliseconds so that their big-endian bytes sort by time."""

UNKNOWN, NEVER = (int(limit) for limit in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))


class KeyFinder(Protocol):
    """One snapshot of a worker's state."""

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """The first ``length`` bytes of each bin's first key that begins with ``space``; empty where there is none."""


def times_of(content: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The times, in any unit, of concatenated bytes that sort by time."""
    return (content.view(">u8").astype(np.uint64) ^ np.uint64(TIME_OFFSET)).view(np.int64)


class FirstTimes:
    """The time of the first index row of each bin, as far as it is known.

    Attributes:
        space: the index's; a byte.
    """

    def __init__(self, space: bytes) -> None:
        self.space = space
        self._times: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def before(self, reader: KeyFinder, owned: BinSet, time_ms: int) -> list[Bin]:
        """The owned bins whose first row has a time before ``time_ms`` (milliseconds since 1970), ascending."""
        self._find(reader, owned)
        return [Bin(b) for b in owned.array[self._times[owned.array] < time_ms].tolist()]

    def earliest(self, reader: KeyFinder, owned: BinSet) -> int | None:
        """The time of the first row of all owned bins, in milliseconds since 1970; None if there is no row."""
        self._find(reader, owned)
        first = int(self._times[owned.array].min(initial=NEVER))
        return None if first == NEVER else first

    def first_of(self, rows: Entries) -> int | None:
        """The time of the first row of the index among these, in milliseconds since 1970."""
        index = rows.filter(pc.starts_with(rows.column("key"), pattern=self.space))
        return int(self._times_in(index.column("key")).min()) if index.num_rows else None

    def change(self, changes: Entries, owned: BinSet) -> None:
        """The state has changed; of other bins than the owned ones nothing is known any more.

        Args:
            changes: the new rows, null for deleted ones; each key once.
            owned: the bins that are owned now.
        """
        if not len(self._times):
            return
        kept = np.full(max(len(self._times), int(owned.array.max(initial=-1)) + 1), UNKNOWN)
        within = owned.array[owned.array < len(self._times)]
        kept[within] = self._times[within]
        self._times = kept
        index = changes.filter(pc.starts_with(changes.column("key"), pattern=self.space))
        if not index.num_rows:
            return
        bins, times = bins_array(index), self._times_in(index.column("key"))
        set_to, gone = (
            each.to_numpy(zero_copy_only=False)
            for each in (index.column("value").is_valid(), index.column("value").is_null())
        )
        lost = gone & (times <= kept[bins])
        kept[bins[lost]] = UNKNOWN  # the next one is not known
        np.minimum.at(kept, bins[set_to], times[set_to])

    def _find(self, reader: KeyFinder, owned: BinSet) -> None:
        """Ask the bins of which nothing is known."""
        size = int(owned.array.max(initial=-1)) + 1
        if size > len(self._times):
            self._times = np.concatenate((self._times, np.full(size - len(self._times), UNKNOWN)))
        unknown = owned.array[self._times[owned.array] == UNKNOWN]
        if len(unknown):
            found = reader.first_keys(unknown, self.space, 1 + TIME_BYTES)
            has = np.array([len(key) > TIME_BYTES for key in found])
            self._times[unknown] = NEVER
            self._times[unknown[has]] = times_of(np.frombuffer(b"".join(key[1:] for key in found), dtype=np.uint8))

    @staticmethod
    def _times_in(keys: pa.BinaryArray) -> npt.NDArray[np.int64]:
        cut = pc.binary_slice(keys, 1, 1 + TIME_BYTES)
        return times_of(np.frombuffer(b"".join(cut.to_pylist()), dtype=np.uint8))
