"""A transaction of a store whose rows are in sorted runs, or else one by one above them.

This module owns how the two are one: a row is in one of them, never in both. Copies come as runs; what an epoch writes is stored
row by row, and hides the rows of the runs that it replaces.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.entries import Entries, bins_array, concat, cut, sort
from binshift.model import Bin, IntArray
from binshift.store.engine.contract import Size, StoreLimits, check_sizes
from binshift.store.engine.lmdb_transaction import LmdbTransaction
from binshift.store.engine.run_files import RunFiles
from binshift.store.engine.runs import Runs
from binshift.store.engine.sorted_run import SortedRun

BYTES_AT_ONCE = 8 << 20
"""So many bytes of runs are in memory together when rows are scanned, or up to twice as many."""


class LayeredTransaction:
    """See `contract.Transaction` for what the methods promise.

    Args:
        above: the rows that are stored one by one, and the blobs.
        files: of the store's runs.
        limits: of the store.
    """

    def __init__(self, above: LmdbTransaction, files: RunFiles, limits: StoreLimits) -> None:
        self._above = above
        self._runs = Runs(above, files)
        self._limits = limits
        self.meta = above.meta
        self.set_meta = above.set_meta
        self.check = above.check
        self.save, self.tidy = self._runs.save, self._runs.tidy

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each (bin, key), null where there is none."""
        found = [(some, run.reader.take(places)) for run, some, places in self._runs.find(bins, keys)]
        if not found:
            return self._above.get_many(bins, keys)
        rest = np.ones(len(keys), dtype=np.bool_)
        for some, _ in found:
            rest[some] = False
        others = np.flatnonzero(rest)
        parts = [
            self._above.get_many(bins[others], keys.filter(pa.array(rest))),
            *(rows.column(2) for _, rows in found),
        ]
        places = np.empty(len(keys), dtype=np.int64)
        places[np.concatenate([others, *(some for some, _ in found)])] = np.arange(len(keys))
        return binary.concat(parts).take(pa.array(places))

    def put_many(self, entries: Entries) -> None:
        """Write rows; a null value deletes."""
        self._above.put_many(entries)
        self._runs.hide(bins_array(entries), entries.column(1))

    def add_run(self, run: SortedRun) -> bool:
        """Write rows none of whose keys is stored, as a whole."""
        check_sizes(run.rows, self._limits)
        return self._runs.add(run, self._limits)

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of ``bin`` from ``start`` to before ``stop``, ascending."""
        return self._in_pieces(bin, start, stop) if self._runs.any else self._above.scan(bin, start, stop)

    def _in_pieces(self, bin: Bin, start: bytes, stop: bytes | None) -> Iterator[Entries]:
        size = self._runs.bytes_of(np.array([bin], dtype=np.int32), start, stop)[0]
        pieces = int(size // BYTES_AT_ONCE) + 1
        bounds = [start, *(self._runs.cuts(bin, start, stop, pieces) if pieces > 1 else []), stop]
        for first, last in pairwise(bounds):
            yield from self._merged(
                self._above.scan(bin, first or b"", last), self._run_rows([bin], first or b"", last)
            )

    def scan_bins(self, bins: Sequence[Bin], start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of several bins from ``start`` to before ``stop``."""
        if not self._runs.any:
            yield from self._above.scan_bins(bins, start, stop)
            return
        for some in self._groups(bins, start, stop):
            if len(some) == 1:
                yield from self.scan(some[0], start, stop)
            else:
                yield from self._merged(self._above.scan_bins(some, start, stop), self._run_rows(some, start, stop))

    def _groups(self, bins: Sequence[Bin], start: bytes, stop: bytes | None) -> list[Sequence[Bin]]:
        """Bins of which runs have few bytes are together; each is alone if they do not ascend."""
        if not all(map(operator.lt, bins, bins[1:])):
            return [[each] for each in bins]
        sizes = self._runs.bytes_of(np.array(bins, dtype=np.int32), start, stop)
        ends = (np.diff(np.cumsum(sizes) // BYTES_AT_ONCE) > 0) | (sizes[:-1] >= BYTES_AT_ONCE)
        bounds = [0, *(np.flatnonzero(ends) + 1).tolist(), len(bins)]
        return [bins[first:last] for first, last in pairwise(bounds) if first < last]

    def _run_rows(self, bins: Sequence[Bin], start: bytes, stop: bytes | None) -> Entries:
        """The rows in runs, ascending."""
        return sort(concat(self._runs.rows(np.array(bins, dtype=np.int32), start, stop)))

    def _merged(self, parts: Iterable[Entries], rows: Entries) -> Iterator[Entries]:
        """Ascending batches and ascending rows, which have no row in common, as ascending batches."""
        for part in parts:
            up_to = bisect_left(range(rows.num_rows), _place(part, -1), key=lambda at: _place(rows, at))
            if not up_to:
                yield part
                continue
            yield from cut(sort(concat([part, rows.slice(0, up_to)])), self._limits.scan_bytes_max)
            rows = rows.slice(up_to)
        yield from cut(rows, self._limits.scan_bytes_max)

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """The beginning of each bin's first key in a space."""
        found = self._above.first_keys(bins, space, length)
        for at, key in self._runs.first_keys(bins, space):
            found[at] = min(found[at] or key, key)[:length]
        return found

    def size(self) -> Size:
        """Of both."""
        above, below = self._above.size(), self._runs.size()
        return Size(above.rows + below.rows, above.bytes + below.bytes)

    def drop(self, bin: Bin, rows_max: int) -> bool:
        """Delete at most ``rows_max`` of the rows of ``bin`` that are stored one by one, and all others."""
        self._runs.drop(bin)
        return self._above.drop(bin, rows_max)

    def clear(self) -> None:
        """Delete all rows."""
        self._above.clear()
        self._runs.clear()


def _place(rows: Entries, at: int) -> tuple[int, bytes]:
    """The bin and the key of a row."""
    return rows.column(0)[at].as_py(), rows.column(1)[at].as_py()
