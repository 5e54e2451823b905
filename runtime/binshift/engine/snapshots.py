"""Which bins to snapshot next, so that every bin's chain of deltas stays short and no epoch pays for all at once.

Each worker writes a slice of its bins, the longest unwritten first. A full cycle takes a set number of epochs; of much
state it takes longer, so that what is written an epoch stays the same however much there is. That keeps a balance: a chain
has a delta for every epoch of the cycle, and reading one costs about what loading `WRITTEN_BYTES` of a snapshot does.

In a fast stream not every epoch counts (`rhythm`). A cycle then takes as long as in a slower one, or as many bytes of deltas.
What a recovery reads of a bin is bounded: its snapshot, and the deltas of at most two cycles, which are 2 * `STRETCH_MAX` times
the epochs of one, however fast they come. A worker has one delta in an epoch.

A snapshot counts once a record names it, and a record names it only if the state it was read from is a recorded one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from binshift.engine.rhythm import Moment, Rhythm
from binshift.log.index.index import Index
from binshift.log.records.bin_sizes import Counts
from binshift.log.records.commits import SnapshotRef
from binshift.model import BinSet, Epoch, IntArray, Worker

PENDING_MAX = 64
"""Snapshots waiting for their record; more are forgotten (their files become garbage)."""

SLICES = 16
"""Slices in a cycle: few enough that most epochs have no concurrent background job, enough that each is short. A longer
cycle has more, at the same distance."""

WRITTEN_BYTES = 64 * 1024
"""Of much state, a worker writes so many bytes an epoch. A small delta costs as much as loading 24 KiB of a snapshot where the log
is on a disk (0.23 ms, and 9.5 ns a byte), and about 96 KiB on an object store, where eight requests of 15 ms are under way."""

CYCLE_EPOCHS_MAX = 1024
"""But not longer than this, or than the least requested cycle: the driver keeps the records of a cycle in memory."""

BIN_BYTES_MIN = 64
"""What a bin counts for at least, so that empty ones are written in turn like others."""


@dataclass
class SnapshotCycle:
    """Decides slices and keeps what was written until a record names it.

    Attributes:
        cycle_epochs: epochs in which every bin is written once, if there is not too much state for it.
        clock: seconds that only grow.
        epochs_per_second: the most that count; see `Rhythm`.
        written: snapshots not yet named by a record.
    """

    cycle_epochs: int
    clock: Callable[[], float] = time.monotonic
    epochs_per_second: float | None = None
    written: list[SnapshotRef] = field(default_factory=list)
    _sliced_at: dict[tuple[str, Worker], Moment] = field(default_factory=dict)
    _delta_bytes: Counter[tuple[str, Worker]] = field(default_factory=Counter)
    _counted_to: Epoch | None = None
    _bytes: dict[str, Counts] = field(default_factory=dict)
    _urgent_at: dict[tuple[str, Worker], Epoch] = field(default_factory=dict)
    _newest: dict[str, tuple[Index, IntArray]] = field(default_factory=dict)

    def slice(self, index: Index, operator: str, worker: Worker) -> BinSet:
        """The bins ``worker`` should write now; empty if it is not time yet. It is for what the log cannot rebuild."""
        assert index.route is not None
        self._count_deltas(index)
        owned = index.route.bins_of(worker)
        if not owned:
            self._sliced_at.pop((operator, worker), None)
            return BinSet()
        urgent = index.unbuildable(operator) & owned
        if urgent:
            ordered = self._urgent_at.get((operator, worker)) == index.last
            self._urgent_at[operator, worker] = index.last
            return BinSet() if ordered else urgent
        rhythm = Rhythm(self.clock, self.epochs_per_second)
        now = rhythm.moment(index.last, self._delta_bytes[operator, worker])
        since = rhythm.since(self._sliced_at.setdefault((operator, worker), now), now.epoch, now.bytes)
        if since * SLICES < self.cycle_epochs:
            return BinSet()
        epochs = self._snapshot_epochs(index, operator)[owned.array]
        oldest = owned.array[np.argsort(epochs, kind="stable")]
        count = slice_bins(self._known(index, operator)[oldest], since, self.cycle_epochs)
        if count:
            self._sliced_at[operator, worker] = now
        return BinSet(oldest[:count])

    def _snapshot_epochs(self, index: Index, operator: str) -> IntArray:
        """See `Index`; found once for all workers of a round, as it takes a pass over all snapshots."""
        if operator not in self._newest or self._newest[operator][0] is not index:
            self._newest[operator] = index, index.snapshot_epochs(operator)
        return self._newest[operator][1]

    def _count_deltas(self, index: Index) -> None:
        """Add the deltas of epochs that are new."""
        counted, self._counted_to = self._counted_to, index.last
        for epoch in range(index.last if counted is None else counted + 1, index.last + 1):
            record = index.records.get(Epoch(epoch))
            for part in () if record is None else record.parts:
                self._delta_bytes[part.operator, Worker(part.worker)] += 0 if part.delta is None else part.delta.bytes

    def _known(self, index: Index, operator: str) -> Counts:
        """By bin, its bytes when it was last written; 0 where that is not known."""
        if operator not in self._bytes:
            self._bytes[operator] = np.zeros(index.bins, dtype=np.int64)
            for snapshot in sorted(index.snapshots[operator], key=lambda each: each.epoch):
                self._note(snapshot)
        return self._bytes[operator]

    def _note(self, snapshot: SnapshotRef) -> None:
        known = self._bytes.get(snapshot.operator)
        if known is not None and snapshot.sizes is not None:
            known[snapshot.bins.array] = 0
            if snapshot.file is not None:
                known[snapshot.file.bins.array] = snapshot.sizes.bytes

    def add(self, snapshot: SnapshotRef) -> None:
        """A worker wrote ``snapshot``."""
        self.written = [*self.written[-PENDING_MAX + 1 :], snapshot]
        self._note(snapshot)

    def take(self, index: Index) -> tuple[SnapshotRef, ...]:
        """The snapshots that the next record names; those of states that never counted are forgotten."""
        later = [each for each in self.written if each.epoch > index.last]
        taken = [each for each in self.written if each.epoch <= index.last and not index.snapshot_trouble(each)]
        self.written = later
        return tuple(taken)

    @property
    def pending(self) -> Sequence[str]:
        """Names of the files no record names yet."""
        return [snapshot.file.name for snapshot in self.written if snapshot.file is not None]


def slice_bins(sizes: Counts, since: int, cycle_epochs: int) -> int:
    """How many bins the next slice has.

    Args:
        sizes: bytes of a worker's bins in the order in which they are to be written, 0 where not known.
        since: epochs since its last slice that count.
        cycle_epochs: of the shortest cycle.

    >>> slice_bins(np.zeros(64, dtype=np.int64), 4, 64)
    4
    >>> slice_bins(np.full(64, 10 * WRITTEN_BYTES), 4, 64), slice_bins(np.full(64, 10 * WRITTEN_BYTES), 10, 64)
    (0, 1)
    """
    weights = np.maximum(np.where(sizes > 0, sizes, _mean(sizes)), BIN_BYTES_MIN)
    total = int(weights.sum())
    cycle = max(cycle_epochs, min(total // WRITTEN_BYTES, CYCLE_EPOCHS_MAX))
    ends = np.cumsum(weights)
    usual = max(1, 2 * cycle_epochs // SLICES)
    most = min(total * min(since, usual) // cycle, -(-total // SLICES))
    count = int(np.searchsorted(ends, most, side="right"))
    # A bin larger than a slice is written when it has been waited for long enough.
    return count or int(ends[0] <= total * since // cycle)


def _mean(sizes: Counts) -> int:
    known = sizes[sizes > 0]
    return int(known.mean()) if known.size else 0
