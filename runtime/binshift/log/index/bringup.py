"""Which files lead some bins to an epoch: the answer to binshift's one recurring question.

Migration, catch-up, recovery, standby and rollback all ask it (architecture, section 3). `BringUp` names exact files
and, per file, exact bins; nothing else needs to be read and nothing in it is superfluous. It is a plain value: the
driver computes it from the index and sends it to a task, which never asks the log what is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from binshift.errors import LogDamaged
from binshift.invariants import invariant
from binshift.log.index.held import HeldRecords
from binshift.log.records.commits import FileRef
from binshift.log.records.envelope import RESTORE
from binshift.model import BinSet, Epoch, IntArray

CATCH_UP_EPOCHS_MAX = 64
"""A copy at most so many epochs older than the newest snapshot catches up by deltas; an older one is loaded again: its
chain of deltas would cost more requests than the snapshot."""

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
        bins: all of them, including complete and lost ones.
        fresh: the bins built from nothing; only these may be loaded by a task that does not hold them.
        starts: the epoch each bin's deltas start after, as groups of bins; together with the lost ones they are ``bins``.
        snapshots: newest first load of the fresh bins.
        deltas: ascending by epoch.
        lost: bins that no usable files lead to that epoch, with the reasons; only a store that has them at ``to`` has them.
    """

    operator: str
    to: Epoch
    bins: BinSet
    fresh: BinSet
    starts: tuple[tuple[Epoch, BinSet], ...]
    snapshots: tuple[SnapshotPart, ...]
    deltas: tuple[DeltaPart, ...]
    lost: tuple[tuple[str, BinSet], ...] = ()

    @property
    def parts(self) -> tuple[SnapshotPart | DeltaPart, ...]:
        """Everything to be read, in the order in which it is to be applied."""
        return *self.snapshots, *self.deltas

    @property
    def bytes_total(self) -> int:
        """About how many bytes will be read: each file's, in proportion to the bins wanted from it."""
        return sum(part.file.bytes * len(part.bins) // max(1, len(part.file.bins)) for part in self.parts)

    @property
    def lost_bins(self) -> BinSet:
        """All lost bins."""
        return BinSet(np.concatenate([BinSet().array, *(some.array for _, some in self.lost)]))

    def check_not_lost(self, bins: BinSet) -> None:
        """Raise if one of ``bins`` is lost.

        Raises:
            LogDamaged: it is; the message begins with the name of the file that is to blame, if there is one.
        """
        for why, some in self.lost:
            if some & bins:
                raise LogDamaged(f"{why}; {RESTORE}").about(operator=self.operator, epoch=self.to)

    def complete_to(self) -> Epoch:
        """The epoch the files lead to."""
        return self.to

    def continuing(self, bins: BinSet, at: Epoch) -> BinSet:
        """Those of ``bins`` whose copies at epoch ``at`` can be advanced by the deltas named here."""
        invariant(len(bins - self.bins) == 0, f"{bins - self.bins!r} were not requested")
        return BinSet(
            np.concatenate([BinSet().array, *((some & bins).array for epoch, some in self.starts if epoch <= at)])
        )


def sources(index: HeldRecords, operator: str, bins: BinSet, have: Mapping[int, int], to: Epoch) -> BringUp:
    """See `Index.sources_or_lost`."""
    invariant(index.base <= to <= index.last, f"epoch {to} is not between {index.base} and {index.last}")
    invariant(not bins or bins.array[-1] < index.bins, f"{bins!r} has a bin beyond {index.bins - 1}")
    starts, snapshot_of = snapshot_starts(index, operator, to)
    wanted = np.zeros(index.bins, dtype=np.bool_)
    wanted[bins.array] = True
    kept = _continue_copies(index, have, to, starts, snapshot_of, wanted)
    lost = tuple(_lost(index, operator, starts, wanted, to))
    for _, some in lost:
        wanted[some.array] = False
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
        fresh=BinSet(np.flatnonzero(wanted).astype(np.int32)) - kept,
        starts=tuple((e, BinSet(np.flatnonzero(wanted & (starts == e)).astype(np.int32))) for e in groups),
        snapshots=tuple(snapshots),
        deltas=tuple(_deltas(index, operator, starts, wanted, to)),
        lost=lost,
    )


def snapshot_starts(index: HeldRecords, operator: str, to: Epoch) -> tuple[IntArray, IntArray]:
    """For every bin, the epoch of its newest usable snapshot at or before ``to`` and which snapshot that is (-1: none).

    A bin without rows up to the index's base starts there, empty; `UNKNOWN` marks a bin that cannot be rebuilt.
    """
    starts = np.full(index.bins, UNKNOWN, dtype=np.int32)
    starts[index.untouched[operator].array] = index.base
    snapshot_of = np.full(index.bins, -1, dtype=np.int32)
    for number, snapshot in enumerate(index.snapshots[operator]):
        if snapshot.epoch <= to and (snapshot.file is None or snapshot.file.name not in index.unusable):
            covered = snapshot.bins.array
            starts[covered] = snapshot.epoch
            snapshot_of[covered] = number
    return starts, snapshot_of


def _continue_copies(
    index: HeldRecords,
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


def _lost(
    index: HeldRecords, operator: str, starts: IntArray, wanted: npt.NDArray[np.bool_], to: Epoch
) -> Iterator[tuple[str, BinSet]]:
    """The bins that no usable files lead to ``to``, and why: each reason begins with the name of a file, if one is to blame."""
    gone = wanted & (starts == UNKNOWN)
    for file, epoch, touched in _unusable(index, operator, to):
        hit = np.zeros(index.bins, dtype=np.bool_)
        hit[touched.array] = True
        hit &= gone if epoch is None else wanted & (starts != UNKNOWN) & (starts < epoch)
        if hit.any():
            some = BinSet(np.flatnonzero(hit).astype(np.int32))
            why = (
                f"{file} is damaged or missing, and nothing else on the log leads bin {some.array[0]} (of {len(some)}) of "
                f"operator {operator!r} to epoch {to}"
            )
            yield why, some
            gone &= ~hit
    if gone.any():
        some = BinSet(np.flatnonzero(gone).astype(np.int32))
        why = (
            f"bin {some.array[0]} (of {len(some)}) of operator {operator!r} cannot be rebuilt at epoch {to}: the log has no "
            f"snapshot of it and nothing before epoch {index.base + 1}"
        )
        yield why, some


def _unusable(index: HeldRecords, operator: str, to: Epoch) -> Iterator[tuple[str, Epoch | None, BinSet]]:
    """The unusable files up to ``to``, with the bins that need them: snapshots, then deltas with their epochs."""
    if not index.unusable:
        return
    for snapshot in index.snapshots[operator]:
        if snapshot.epoch <= to and snapshot.file is not None and snapshot.file.name in index.unusable:
            yield snapshot.file.name, None, snapshot.bins
    for epoch in range(index.base + 1, to + 1):
        for part in index.records[Epoch(epoch)].parts:
            if part.operator == operator and part.delta is not None and part.delta.name in index.unusable:
                yield part.delta.name, Epoch(epoch), part.delta.bins


def _deltas(
    index: HeldRecords, operator: str, starts: IntArray, wanted: npt.NDArray[np.bool_], to: Epoch
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
