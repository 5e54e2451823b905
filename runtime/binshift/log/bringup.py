"""Which files lead some bins to an epoch: the answer to binshift's one recurring question.

Migration, catch-up, recovery, standby and rollback all ask it (architecture, section 3). `BringUp` names exact files
and, per file, exact bins; nothing else needs to be read and nothing in it is superfluous. It is a plain value: the
driver computes it from the index and sends it to a task, which never asks the log what is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from binshift.errors import LogDamaged
from binshift.invariants import invariant
from binshift.log.records import FileRef
from binshift.model import BinSet, Epoch, IntArray

if TYPE_CHECKING:
    from binshift.log.index import Index

CATCH_UP_EPOCHS_MAX = 64
"""A copy that is at most so many epochs older than the newest snapshot catches up by deltas; one further behind is
loaded afresh: its chain of deltas would cost more requests than the snapshot."""

UNKNOWN = -2
"""In an array of epochs: this bin cannot be rebuilt."""


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """Read these bins from this snapshot file; each has rows in it."""

    epoch: Epoch
    file: FileRef
    bins: BinSet


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """Read these bins from this delta file; each has rows in it."""

    epoch: Epoch
    file: FileRef
    bins: BinSet


@dataclass(frozen=True, slots=True)
class BringUp:
    """How some bins of an operator get to the state recorded for an epoch.

    Apply ``snapshots`` (no bin is in two), then ``deltas`` in their order. What is held of a bin in ``fresh`` is dropped
    first; the others are held already, at the epoch in ``starts``.

    Attributes:
        operator: whose state.
        to: the epoch the bins are at afterwards.
        bins: all of them, those that need nothing included.
        fresh: the bins built from nothing; only these may be loaded by a task that does not hold them.
        starts: the epoch each bin's deltas start after, as groups of bins; together they are ``bins``.
        snapshots: newest first load of the fresh bins.
        deltas: ascending by epoch.
    """

    operator: str
    to: Epoch
    bins: BinSet
    fresh: BinSet
    starts: tuple[tuple[Epoch, BinSet], ...]
    snapshots: tuple[SnapshotPart, ...]
    deltas: tuple[DeltaPart, ...]

    @property
    def parts(self) -> tuple[SnapshotPart | DeltaPart, ...]:
        """Everything to be read, in the order in which it is to be applied."""
        return *self.snapshots, *self.deltas

    @property
    def files(self) -> tuple[FileRef, ...]:
        """Every file to be read."""
        return tuple(part.file for part in self.parts)

    @property
    def nothing_needed(self) -> bool:
        """Whether every bin is there already: held, and at ``to``."""
        return not self.fresh and all(epoch == self.to for epoch, _ in self.starts)

    @property
    def oldest(self) -> Epoch:
        """The oldest epoch of its files: while this bring-up runs, retention must not go beyond it."""
        return min((part.epoch for part in self.parts), default=self.to)

    @property
    def bytes_total(self) -> int:
        """About how many bytes will be read: each file's, in proportion to the bins wanted from it."""
        return sum(part.file.bytes * len(part.bins) // max(1, len(part.file.bins)) for part in self.parts)

    def complete_to(self) -> Epoch:
        """The epoch the files lead to."""
        return self.to

    def complete_from(self, bins: BinSet) -> Epoch:
        """The oldest epoch from which copies of ``bins`` can be advanced by the deltas named here."""
        invariant(len(bins - self.bins) == 0, f"{bins - self.bins!r} were not asked for")
        return max((epoch for epoch, some in self.starts if len(some & bins)), default=Epoch(-1))


def sources(index: Index, operator: str, bins: BinSet, have: Mapping[int, int], to: Epoch) -> BringUp:
    """See `Index.sources`."""
    invariant(index.base <= to <= index.last, f"epoch {to} is not between {index.base} and {index.last}")
    invariant(not bins or bins.array[-1] < index.bins, f"{bins!r} has a bin beyond {index.bins - 1}")
    starts, snapshot_of = snapshot_starts(index, operator, to)
    wanted = np.zeros(index.bins, dtype=np.bool_)
    wanted[bins.array] = True
    kept = _continue_copies(index, have, to, starts, snapshot_of, wanted)
    lost = np.flatnonzero(wanted & (starts == UNKNOWN))
    if lost.size:
        raise LogDamaged(
            f"bin {lost[0]} (of {lost.size}) of operator {operator!r} cannot be rebuilt at epoch {to}: the log has no "
            f"snapshot of it and nothing before epoch {index.base + 1}"
        )
    snapshots = []
    for number in np.unique(snapshot_of[wanted]).tolist():
        file = index.snapshots[operator][number].file if number >= 0 else None
        if file is not None:
            some = BinSet(np.flatnonzero(wanted & (snapshot_of == number)).astype(np.int32)) & file.bins
            if some:
                snapshots.append(SnapshotPart(Epoch(index.snapshots[operator][number].epoch), file, some))
    groups = [Epoch(e) for e in np.unique(starts[wanted]).tolist()]
    return BringUp(
        operator=operator,
        to=to,
        bins=bins,
        fresh=bins - kept,
        starts=tuple((e, BinSet(np.flatnonzero(wanted & (starts == e)).astype(np.int32))) for e in groups),
        snapshots=tuple(snapshots),
        deltas=tuple(_deltas(index, operator, starts, wanted, to)),
    )


def snapshot_starts(index: Index, operator: str, to: Epoch) -> tuple[IntArray, IntArray]:
    """For every bin, the epoch of its newest snapshot at or before ``to`` and which snapshot that is (-1: none).

    A bin without rows up to the index's base starts there, empty; `UNKNOWN` marks a bin that cannot be rebuilt.
    """
    starts = np.full(index.bins, UNKNOWN, dtype=np.int32)
    starts[index.untouched[operator].array] = index.base
    snapshot_of = np.full(index.bins, -1, dtype=np.int32)
    for number, snapshot in enumerate(index.snapshots[operator]):
        if snapshot.epoch <= to:
            covered = snapshot.bins.array
            starts[covered] = snapshot.epoch
            snapshot_of[covered] = number
    return starts, snapshot_of


def _continue_copies(
    index: Index,
    have: Mapping[int, int],
    to: Epoch,
    starts: IntArray,
    snapshot_of: IntArray,
    wanted: npt.NDArray[np.bool_],
) -> BinSet:
    """Start from what is held where the deltas since are still in the log, and few."""
    held = np.array([b for b in have if b < index.bins and wanted[b]], dtype=np.int32)
    at = np.array([have[b] for b in held.tolist()], dtype=np.int32)
    useful = (at >= index.base) & (at <= to) & ((snapshot_of[held] < 0) | (at >= starts[held] - CATCH_UP_EPOCHS_MAX))
    kept = held[useful]
    starts[kept] = at[useful]
    snapshot_of[kept] = -1
    return BinSet(kept)


def _deltas(
    index: Index, operator: str, starts: IntArray, wanted: npt.NDArray[np.bool_], to: Epoch
) -> Iterator[DeltaPart]:
    oldest = int(starts[wanted].min()) if wanted.any() else to
    for epoch in range(oldest + 1, to + 1):
        needed = wanted & (starts < epoch)
        for part in index.records[Epoch(epoch)].parts:
            if part.operator == operator and part.delta is not None:
                touched = part.delta.bins.array
                some = touched[needed[touched]]
                if some.size:
                    yield DeltaPart(Epoch(epoch), part.delta, BinSet(some))
