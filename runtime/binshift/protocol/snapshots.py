"""Which bins to snapshot next, so that every bin's chain of deltas stays short and no epoch pays for all at once.

Each worker writes a slice of its bins, the longest unwritten first, so that a full cycle takes a set number of epochs.
A snapshot counts once a record names it, and a record names it only if the state it was read from is a recorded one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from binshift.log.index import Index
from binshift.log.records import SnapshotRef
from binshift.model import BinSet, Epoch, Worker

PENDING_MAX = 64
"""Snapshots waiting for their record; more are forgotten (their files become garbage)."""

SLICES = 16
"""Slices in a cycle: few enough that most epochs have no background job beside them, enough that each is short."""


@dataclass
class SnapshotCycle:
    """Decides slices and keeps what was written until a record names it.

    Attributes:
        cycle_epochs: epochs in which every bin is written once.
        written: snapshots not yet named by a record.
    """

    cycle_epochs: int
    written: list[SnapshotRef] = field(default_factory=list)
    _sliced_at: dict[tuple[str, Worker], Epoch] = field(default_factory=dict)

    def slice(self, index: Index, operator: str, worker: Worker) -> BinSet:
        """The bins ``worker`` should write now; empty if it is not time yet."""
        assert index.route is not None
        owned = index.route.bins_of(worker)
        if not owned:
            self._sliced_at.pop((operator, worker), None)
            return BinSet()
        since = index.last - self._sliced_at.setdefault((operator, worker), index.last)
        count = min(len(owned) * since // self.cycle_epochs, -(-len(owned) // SLICES))
        if not count or since * SLICES < self.cycle_epochs:
            return BinSet()
        epochs = index.snapshot_epochs(operator)[owned.array]
        oldest = np.argsort(epochs, kind="stable")[:count]
        self._sliced_at[operator, worker] = index.last
        return BinSet(owned.array[oldest])

    def add(self, snapshot: SnapshotRef) -> None:
        """A worker wrote ``snapshot``."""
        self.written = [*self.written[-PENDING_MAX + 1 :], snapshot]

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
