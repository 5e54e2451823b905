"""The rows of bins that are built from nothing: their newest snapshots, then every delta after those, merged.

Bins are processed in groups, so that memory and the time between two checks of a budget are bounded for any size of a bin.
Deltas are many small files with rows of many bins each: they are read once for all groups if they are small in total. They are merged by group:
large new memory is slow, as the kernel clears each of its pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from binshift.entries import EMPTY, Entries, bins_array, concat, merge_last_wins
from binshift.log.files.reading import read_bins, read_blocks
from binshift.log.index.bringup import BringUp
from binshift.log.storage.contract import Storage
from binshift.model import BinSet, Epoch, IntArray

SHARED_ROWS_MAX = 500_000
"""Rows of deltas that are kept for the groups to come; with more, each group reads its own."""

MERGED_ROWS = 16_384
"""Rows of small deltas that are merged at once: each call of Arrow costs as much as some hundred rows."""

_NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Limits:
    """How much is done at once.

    Attributes:
        bins_at_once: bins read and merged together.
        rows_at_once: about how many rows these may have; a bin with more is alone.
        bytes_at_once: about how many bytes of files these may be in; a bin with more is alone.
        rows_per_transaction: rows of deltas written while the store's write lock is held.
        bytes_per_transaction: bytes of deltas written meanwhile; a row with more is alone.
    """

    bins_at_once: int = 256
    rows_at_once: int = 1_000_000
    bytes_at_once: int = 64 << 20
    rows_per_transaction: int = 20_000
    bytes_per_transaction: int = 8 << 20

    def hold(self, changes: Sequence[Entries]) -> bool:
        """Whether one transaction may have more than these rows."""
        rows: int = sum(part.num_rows for part in changes)
        size: int = sum(part.nbytes for part in changes)
        return rows < self.rows_per_transaction and size < self.bytes_per_transaction


@dataclass
class BinRebuild:
    """Builds ``bins``, all of which are among the fresh ones of ``files``.

    Attributes:
        storage: the log's files.
        files: which to read.
        bins: what is built.
        rest: called after each file; it may wait.
    """

    storage: Storage
    files: BringUp
    bins: BinSet
    rest: Callable[[], object] = lambda: None
    _shared: list[Entries] | None = field(default=None, init=False)

    def groups(self, limits: Limits) -> Iterator[BinSet]:
        """The bins, ascending, in groups within the limits."""
        shares = list(zip(self._shares, self.files.parts, strict=True))
        rows = sum(share * part.file.rows for share, part in shares)
        size = sum(share * part.file.bytes for share, part in shares)
        fitting = min(limits.rows_at_once / max(rows, 1), limits.bytes_at_once / max(size, 1)) * len(self.bins)
        step = max(1, min(limits.bins_at_once, int(fitting))) if rows else max(1, len(self.bins))
        for at in range(0, len(self.bins), step):
            yield BinSet(np.array(self.bins.array[at : at + step]))

    def rows(self, group: BinSet) -> Entries:
        """All rows of one of the groups, sorted, without deletions."""
        return _live(merge_last_wins([EMPTY, *self._snapshots(group), *self._deltas(group)]))

    def _snapshots(self, group: BinSet) -> Iterator[Entries]:
        for snapshot in self.files.snapshots:
            if wanted := snapshot.bins & group:
                yield from read_bins(self.storage, snapshot.file, wanted)
                self.rest()

    def _deltas(self, group: BinSet) -> Iterator[Entries]:
        if not self._are_shared:
            yield from self._read(group)
            return
        if self._shared is None:
            self._shared = list(self._read(self.bins))
        for part in self._shared:
            first, last = np.searchsorted(bins_array(part), (group.array[0], group.array[-1] + 1))
            yield part.slice(first, last - first)

    @cached_property
    def _are_shared(self) -> bool:
        """Whether the deltas are small in total; the same result for every group."""
        deltas = zip(self._shares[len(self.files.snapshots) :], self.files.deltas, strict=True)
        return sum(share * delta.file.rows for share, delta in deltas) <= SHARED_ROWS_MAX

    def _read(self, bins: BinSet) -> Iterator[Entries]:
        """Oldest first, sorted; of each bin only what came after its snapshot. What is small is merged on the way."""
        starts = self._starts(bins)
        held, rows = list[tuple[Epoch, Entries]](), 0
        deltas = [(delta, wanted) for delta in self.files.deltas if (wanted := delta.bins & bins)]
        parts = [(delta.file, wanted) for delta, wanted in deltas]
        for (delta, _), blocks in zip(deltas, read_blocks(self.storage, parts), strict=True):
            for block in blocks:
                held.append((delta.epoch, block))
                rows += block.num_rows
                if rows >= MERGED_ROWS:
                    yield _after(starts, held)
                    held, rows = [], 0
            self.rest()
        yield _after(starts, held)

    def _starts(self, bins: BinSet) -> IntArray:
        """By bin, the epoch after which its deltas count; never for other bins. The last place is that of all higher ones."""
        starts = np.full(int(bins.array.max(initial=-1)) + 2, _NEVER, dtype=np.int32)
        for epoch, some in self.files.starts:
            starts[(some & bins).array] = epoch
        return starts

    @cached_property
    def _shares(self) -> Sequence[float]:
        """Of each part, about how much of its file is of the bins that are built."""
        return [len(part.bins & self.bins) / max(1, len(part.file.bins)) for part in self.files.parts]


def _after(starts: IntArray, held: Sequence[tuple[Epoch, Entries]]) -> Entries:
    """The rows of epochs after the one where their bin starts, sorted; of two with one key the later one."""
    rows = concat([block for _, block in held])
    epochs = np.repeat(np.array([epoch for epoch, _ in held], np.int32), [block.num_rows for _, block in held])
    wanted = starts[np.minimum(bins_array(rows), len(starts) - 1)] < epochs
    return merge_last_wins([rows if wanted.all() else rows.filter(pa.array(wanted))])


def _live(entries: Entries) -> Entries:
    """Only the rows that are not deletions."""
    return entries.filter(entries.column("value").is_valid()) if entries.column("value").null_count else entries
