"""A sorted run: rows by (bin, key) in columns, with an index by hash; written once, as a whole.

This module owns the layout of a run and how rows are found in it. A run is what log-structured stores have of that name: a copy of
many bins is written as one, for a tenth of what its rows would cost one by one, and read from where it lies.

- The rows are columns in the order of (bin, key), so a range of a bin is a slice.
- A row is found by the hash of its bin and key: a binary search among all hashes, which are sorted, leads to its place.
- Each row has its checksum, which is compared whenever the row is read.

It must never return a row for another key of the same hash, nor contain two rows of one hash (`SortedRun.of` packs no such rows).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift.binary import BoolArray
from binshift.entries import ENTRY_SCHEMA, Entries, bins_array, is_sorted
from binshift.errors import StoreDamaged
from binshift.invariants import invariant
from binshift.model import IntArray
from binshift.store.engine import row_checksums
from binshift.store.engine.long_keys import whole_keys

ROWS_MIN = 1024
"""Fewer rows are not packed: they cost less one by one than a run does whenever rows are sought in it."""

ROWS_MAX, BYTES_MAX = 65_536, 8 << 20
"""More rows or bytes are several runs, so that each is written in a few milliseconds."""

SPACES_MAX = 8
"""Beginnings of keys whose places are remembered: an operator has a few spaces of keys."""

Places = npt.NDArray[np.int64]
_HASHES, _PLACES, _CHECKSUMS = 3, 4, 5
_SCHEMA = pa.schema([*ENTRY_SCHEMA, ("hash", pa.uint64()), ("place", pa.uint32()), ("checksum", pa.uint64())])


@dataclass(frozen=True)
class SortedRun:
    """Rows to be written, packed ahead if that is worth it.

    Attributes:
        rows: strictly ascending by (bin, key).
        content: the run as it is stored; None: these rows are to be stored one by one.
    """

    rows: Entries
    content: pa.Buffer | None

    @classmethod
    def of(cls, rows: Entries) -> SortedRun:
        """Pack rows, which ascend strictly; rows with deletions are not packed.

        Raises:
            InvariantViolated: they do not ascend.
        """
        invariant(is_sorted(rows, strictly=True), "a run has rows in order, each once")
        worth = rows.num_rows >= ROWS_MIN and not rows.column(2).null_count
        return cls(rows, _packed(rows) if worth else None)


def _packed(rows: Entries) -> pa.Buffer | None:
    stored = whole_keys(bins_array(rows), rows.column(1))
    hashes = row_checksums.hashes(stored)
    order = np.argsort(hashes)
    ascending = hashes[order]
    if (ascending[1:] == ascending[:-1]).any():
        return None
    checksums = row_checksums.row_sums(stored, rows.column(2))
    index = (ascending, order.astype(np.uint32), checksums)
    return pa.RecordBatch.from_arrays([*rows.columns, *map(pa.array, index)], schema=_SCHEMA).serialize()


class RunReader:
    """The rows of one run, from memory that does not change.

    Args:
        content: what `SortedRun.content` was.

    Raises:
        StoreDamaged: it is no run.
    """

    def __init__(self, content: pa.Buffer) -> None:
        try:
            batch = pa.ipc.read_record_batch(content, _SCHEMA)
        except (pa.ArrowInvalid, OSError) as error:
            raise StoreDamaged(f"a run cannot be read: {error}") from error
        self.rows: Entries = batch.select([0, 1, 2])
        """All of them."""
        self._bins = bins_array(self.rows)
        self._keys: pa.BinaryArray = self.rows.column(1)
        self._hashes, self._places, self._checksums = (
            batch.column(at).to_numpy() for at in (_HASHES, _PLACES, _CHECKSUMS)
        )
        self._ranges: dict[bytes, tuple[Places, Places]] = {}

    def __len__(self) -> int:
        return len(self._bins)

    @cached_property
    def bins(self) -> IntArray:
        """The bins that have rows here, ascending."""
        found: IntArray = self._bins[np.flatnonzero(np.diff(self._bins, prepend=-1))]
        return found

    @cached_property
    def _starts(self) -> Places:
        """Where the rows of each of `bins` start, and the end."""
        return np.append(np.searchsorted(self._bins, self.bins), len(self))

    def find(
        self, hashes: row_checksums.Sums, bins: IntArray, keys: pa.BinaryArray, some: Places, counts: BoolArray
    ) -> tuple[Places, Places]:
        """Which of some wanted rows are here and count, and where.

        Args:
            hashes: of all wanted rows (`row_checksums.hashes` of `whole_keys`).
            bins, keys: of all wanted rows.
            some: the positions of those in question.
            counts: of each row here.
        """
        at = np.searchsorted(self._hashes, hashes[some])
        at[at == len(self)] = 0
        places = self._places[at].astype(np.int64)
        found = np.flatnonzero((self._hashes[at] == hashes[some]) & counts[places])
        wanted, places = some[found], places[found]
        if len(wanted):
            same_key = pc.equal(self._keys.take(pa.array(places)), keys.take(pa.array(wanted)))
            same = same_key.to_numpy(zero_copy_only=False) & (self._bins[places] == bins[wanted])
            wanted, places = wanted[same], places[same]
        return wanted, places

    def range_of(self, bin: int) -> slice:
        """The places of the rows of one of `bins`."""
        at = int(np.searchsorted(self.bins, bin))
        return slice(int(self._starts[at]), int(self._starts[at + 1]))

    def places(self, bins: IntArray, start: bytes, stop: bytes | None) -> Places:
        """Of some of `bins`, in their order, the places of the rows with ``start <= key < stop``."""
        firsts, lasts = self.spans(bins, space_of(start, stop))
        ranges = [self._between(*each, start, stop) for each in zip(firsts.tolist(), lasts.tolist(), strict=True)]
        return np.concatenate([np.empty(0, np.int64), *(np.arange(*each) for each in ranges if each[0] < each[1])])

    def spans(self, bins: IntArray, space: bytes) -> tuple[Places, Places]:
        """Of each of some of `bins`, first and last place, exclusive, of the rows whose key begins with ``space``."""
        if space not in self._ranges:
            if len(self._ranges) == SPACES_MAX:
                self._ranges.clear()
            self._ranges[space] = self._ranges_with(space)
        at = np.searchsorted(self.bins, bins)
        first, last = self._ranges[space]
        return first[at], last[at]

    def _between(self, first: int, last: int, start: bytes, stop: bytes | None) -> tuple[int, int]:
        """The part with ``start <= key < stop`` of rows whose keys ascend."""
        every = range(len(self))
        first = bisect_left(every, start, first, last, key=self._key) if start else first
        return first, last if stop is None else bisect_left(every, stop, first, last, key=self._key)

    def _key(self, place: int) -> bytes:
        key: bytes = self._keys[place].as_py()
        return key

    def _ranges_with(self, space: bytes) -> tuple[Places, Places]:
        """The same of all `bins`."""
        if not space:
            return self._starts[:-1], self._starts[1:]
        inside = np.flatnonzero(pc.starts_with(self._keys, space).to_numpy(zero_copy_only=False))
        first, last = (np.searchsorted(inside, self._starts[side]) for side in (slice(None, -1), slice(1, None)))
        places = np.append(inside, len(self))
        return places[first], places[first] + (last - first)

    def take(self, places: Places) -> Entries:
        """The rows at these places.

        Raises:
            StoreDamaged: a row is not what was stored.
        """
        rows = self.rows.take(pa.array(places))
        stored = whole_keys(bins_array(rows), rows.column(1))
        if not np.array_equal(row_checksums.row_sums(stored, rows.column(2)), self._checksums[places]):
            raise StoreDamaged("rows of a run are not what was stored")
        return rows


def space_of(start: bytes, stop: bytes | None) -> bytes:
    """What all keys with ``start <= key < stop`` begin with, as far as spaces are concerned."""
    return start[:1] if stop and stop[:1] == start[:1] else b""
