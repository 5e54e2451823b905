"""The sorted runs of a store in one transaction: which there are, and which of their rows count.

A row of a run counts until it is written again, deleted or dropped; from then on it is *hidden*. So a row is stored in one place at
any time: in a run, or by itself. Which rows of a run count is a bitmap, kept with the listing in blobs of the store: they
commit with the rest of the transaction or not at all. A run without rows that count is not listed any more.

It must never change a run, and never list one whose file is not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binshift.binary import BoolArray
from binshift.entries import Entries, bin_set
from binshift.model import IntArray
from binshift.store.engine import room, row_checksums, run_listing, sorted_run
from binshift.store.engine.contract import Size, StoreLimits
from binshift.store.engine.long_keys import whole_keys
from binshift.store.engine.run_files import MappedRun, RunFile, RunFiles, RunSet, checksum
from binshift.store.engine.run_listing import Blobs, Listing
from binshift.store.engine.sorted_run import Places, RunReader, SortedRun, space_of

RUNS_MAX = 1024
"""More runs are not made: each costs some 25 microseconds whenever rows are sought in it."""

ROWS_SHARE = 64
"""A run has at least this fraction of the rows that there are in runs, or is half as large as runs become: so they stay few."""

MAP_SHARE = 4
"""Runs take at most this fraction of the bytes that a store may have."""


@dataclass
class _Run:
    """A run in this transaction, and which of its rows count."""

    reader: RunReader
    row_bytes: float
    counts: BoolArray
    changed: bool = False

    def hide(self, places: Places | slice) -> None:
        """These rows do not count any more."""
        self.counts[places] = False
        self.changed = True


@dataclass
class Runs:
    """See the module.

    Attributes:
        blobs: of the transaction.
        files: of the store.

    Raises:
        Removed: a file that is listed here has been removed since.
        StoreDamaged: the listing cannot be read.
    """

    blobs: Blobs
    files: RunFiles
    _before: Listing = field(init=False)
    _listing: Listing = field(init=False)
    _mapped: RunSet = field(init=False)
    _runs: dict[int, _Run] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._before = self._listing = run_listing.read(self.blobs)
        self._map()

    def _map(self) -> None:
        self._mapped = self.files.mapped(self._listing.files, lambda file: run_listing.bins(self.blobs, file))

    @property
    def any(self) -> bool:
        """Whether there are runs."""
        return bool(self._listing.files)

    # ------------------------------------------------------------------------------------------------------- reading

    def find(self, bins: IntArray, keys: pa.BinaryArray) -> Iterator[tuple[_Run, Places, Places]]:
        """Where rows are that count: by run, the positions of those it has among the wanted ones, and their places in it."""
        hashes = None
        for run, some in self._with_bins(bins):
            if hashes is None:
                hashes = row_checksums.hashes(whole_keys(bins, keys))
            wanted, places = run.reader.find(hashes, bins, keys, some, run.counts)
            if len(wanted):
                yield run, wanted, places

    def rows(self, bins: IntArray, start: bytes, stop: bytes | None) -> list[Entries]:
        """The rows of ``bins`` with ``start <= key < stop`` that count; of each run in the order of the bins, ascending."""
        found = []
        for run, some in self._with_bins(bins):
            places = run.reader.places(bins[some], start, stop)
            places = places[run.counts[places]]
            if len(places):
                found.append(run.reader.take(places))
        return found

    def bytes_of(self, bins: IntArray, start: bytes, stop: bytes | None) -> npt.NDArray[np.float64]:
        """Of each bin, about how many bytes `rows` could return: with rows that do not count any more, or are not in the range."""
        found = np.zeros(len(bins))
        for run, some in self._with_bins(bins):
            first, last = run.reader.spans(bins[some], space_of(start, stop))
            found[some] += (last - first) * run.row_bytes
        return found

    def cuts(self, bin: int, start: bytes, stop: bytes | None, pieces: int) -> list[bytes]:
        """Ascending keys within a range that divide the rows of ``bin`` in its largest run into so many pieces, or fewer."""
        bins = np.array([bin], dtype=np.int32)
        spans = [(run.reader, run.reader.spans(bins, space_of(start, stop))) for run, _ in self._with_bins(bins)]
        reader, (first, last) = max(spans, key=lambda each: int(each[1][1][0] - each[1][0][0]))
        places = np.unique(first[0] + np.arange(1, pieces, dtype=np.int64) * (last[0] - first[0]) // pieces)
        keys = reader.take(places).column(1).to_pylist()
        return [key for key in keys if key > start and (stop is None or key < stop)]

    def first_keys(self, bins: IntArray, space: bytes) -> Iterator[tuple[int, bytes]]:
        """By the position of its bin and for each run, the first key that begins with ``space``; only of rows that count."""
        for run, some in self._with_bins(bins):
            first, last = run.reader.spans(bins[some], space)
            counting = np.append(np.flatnonzero(run.counts), len(run.counts))
            places = counting[np.searchsorted(counting, first)]
            there = places < last
            yield from zip(some[there].tolist(), run.reader.take(places[there]).column(1).to_pylist(), strict=True)

    def size(self) -> Size:
        """Of the rows that count."""
        files = [self._counted(file) for file in self._listing.files]
        return Size(sum(file.live for file in files), sum(file.size * file.live // file.rows for file in files))

    def _with_bins(self, bins: IntArray) -> Iterator[tuple[_Run, Places]]:
        """The runs with rows of some of the bins, and the positions of these bins."""
        if not self.any:
            return
        first, last = (np.searchsorted(self._mapped.bins, bins, side) for side in ("left", "right"))
        for step in range(int((last - first).max(initial=0))):
            at = np.flatnonzero(first + step < last)
            places = self._mapped.places[first[at] + step]
            order = np.argsort(places, kind="stable")
            for some in np.split(order, np.flatnonzero(np.diff(places[order])) + 1):
                yield self._opened(self._mapped.runs[places[some[0]]]), at[some]

    def _opened(self, mapped: MappedRun) -> _Run:
        number = mapped.file.number
        if number not in self._runs:
            row_bytes = mapped.file.size / mapped.file.rows
            self._runs[number] = _Run(mapped.reader, row_bytes, run_listing.counts(self.blobs, mapped.file))
        return self._runs[number]

    def _counted(self, file: RunFile) -> RunFile:
        """A listed file with the rows that count now."""
        run = self._runs.get(file.number)
        return file if run is None or not run.changed else msgspec.structs.replace(file, live=int(run.counts.sum()))

    # ------------------------------------------------------------------------------------------------------- writing

    def add(self, run: SortedRun, limits: StoreLimits) -> bool:
        """Add a run; False, with nothing changed, if its rows are to be stored one by one.

        Raises:
            DiskFull: too little of the disk would be left.
        """
        content, files, rows = run.content, self._listing.files, run.rows.num_rows
        if content is None or room.is_limited() or len(files) >= RUNS_MAX:
            return False
        large = 2 * rows >= sorted_run.ROWS_MAX or 2 * content.size >= sorted_run.BYTES_MAX
        if not large and rows < sum(file.rows for file in files) // ROWS_SHARE:
            return False
        if sum(file.size for file in files) + content.size > limits.map_bytes_max // MAP_SHARE:
            return False
        file = RunFile(self._listing.next, checksum(content), content.size, rows, rows)
        listed = {each.number for each in (*self._before.files, *files)}
        self.files.write(file.number, content, listed, limits.disk_free_bytes_min)
        run_listing.write_bins(self.blobs, file, bin_set(run.rows).array)
        self._listing = Listing(file.number + 1, (*files, file))
        self._map()
        return True

    def hide(self, bins: IntArray, keys: pa.BinaryArray) -> None:
        """These rows do not count any more, where there are any."""
        for run, _, places in self.find(bins, keys):
            run.hide(places)

    def drop(self, bin: int) -> None:
        """No row of ``bin`` counts any more."""
        for run, _ in self._with_bins(np.array([bin], dtype=np.int32)):
            run.hide(run.reader.range_of(bin))

    def clear(self) -> None:
        """There are no runs any more."""
        for file in self._listing.files:
            run_listing.forget(self.blobs, file)
        self._listing = Listing(self._listing.next)
        self._map()

    def save(self) -> None:
        """Write what has changed; the last thing a transaction does."""
        files = []
        for file in map(self._counted, self._listing.files):
            if not file.live:
                run_listing.forget(self.blobs, file)
                continue
            files.append(file)
            run = self._runs.get(file.number)
            if run is not None and run.changed:
                run_listing.write_counts(self.blobs, file, run.counts)
        self._listing = Listing(self._listing.next, tuple(files))
        if self._listing != self._before:
            run_listing.write(self.blobs, self._listing)

    def tidy(self) -> None:
        """Remove the files that are not listed any more, after the transaction has been committed."""
        listed = {file.number for file in self._listing.files}
        self.files.remove(file.number for file in self._before.files if file.number not in listed)
