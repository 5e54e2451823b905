"""The log in memory: its records, and the state that they imply. Pure; never touches a file.

An `Index` is immutable: applying a record gives the next one, so a thread that plans copies or writes a manifest keeps a
consistent view while epochs continue. It holds the records after its *base*; of earlier records it only keeps the route and the
bins that had no row yet, since everything else is already in snapshots (`retention` moves the base).

It answers: which route, stamp, time and watermark had an epoch; which files lead a bin to an epoch. It believes no record
that does not fit the ones before it (`continuity`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from binshift.invariants import invariant
from binshift.log.index import bringup, continuity
from binshift.log.index.bringup import BringUp
from binshift.log.index.held import HeldRecords, next_route
from binshift.log.records.bin_sizes import BinSizes
from binshift.log.records.commits import CommitRecord, SnapshotRef
from binshift.model import BinSet, Epoch, IntArray

MANIFESTS_KEPT = 2
"""How many named manifests are kept: should the newest be damaged, the one before and the records since replace it."""


@dataclass(frozen=True, slots=True)
class Index(HeldRecords):
    """An image of the log: what it holds, and what follows from it."""

    @classmethod
    def new(cls, bins: int, operators: Iterable[str], root: str = "") -> Index:
        """The index of a log without records; ``root`` is `LogFormat.fingerprint`."""
        names = tuple(operators)
        invariant(names and len(set(names)) == len(names), f"operators need names of their own; got {names}")
        every = BinSet(np.arange(bins, dtype=np.int32))
        untouched, snapshots = dict.fromkeys(names, every), dict.fromkeys(names, ())
        return cls(bins, names, root, base_tip=root, untouched=untouched, snapshots=snapshots)

    def apply(self, record: CommitRecord) -> Index:
        """The index after ``record``.

        Raises:
            LogDamaged: the record does not fit; the message has the reason.
        """
        continuity.check_order(self, record)
        route = next_route(self.bins, self.route, record)
        continuity.check_parts(self, record, route)
        continuity.check_snapshots(self, record)
        return replace(
            self,
            base=Epoch(record.epoch - 1) if self.empty else self.base,
            records={**self.records, Epoch(record.epoch): record},
            snapshots=_with(self.snapshots, continuity.reachable_snapshots(self, record)),
            manifests=named_manifests(self.manifests, [record]),
            route=route,
        )

    def sources(self, operator: str, bins: BinSet, have: Mapping[int, int], to: Epoch) -> BringUp:
        """As `sources_or_lost`, for callers that need all of ``bins``.

        Raises:
            LogDamaged: a bin cannot be rebuilt.
            InvariantViolated: as `sources_or_lost`.
        """
        found = self.sources_or_lost(operator, bins, have, to)
        found.check_not_lost(bins)
        return found

    def sources_or_lost(self, operator: str, bins: BinSet, have: Mapping[int, int], to: Epoch) -> BringUp:
        """Which files lead ``bins`` to the state recorded for ``to``; exactly those, and no bin more.

        ``have`` has the recorded epoch of each bin that is already held; a copy newer than ``to``, or older than the log's
        first epoch, is loaded again.

        Bins that no usable files lead there are `BringUp.lost`.

        Raises:
            InvariantViolated: ``to`` is not held (see `base` and `last`).
        """
        return bringup.sources(self, operator, bins, have, to)

    def unbuildable(self, operator: str) -> BinSet:
        """The bins that no usable files lead to the last epoch: a snapshot of them is wanted at once."""
        if not self.unusable:
            return BinSet()
        every = BinSet(np.arange(self.bins, dtype=np.int32))
        return self.sources_or_lost(operator, every, {}, self.last).lost_bins

    def snapshot_trouble(self, snapshot: SnapshotRef) -> str | None:
        """Why the next record must not accept ``snapshot``; None if it may."""
        return continuity.snapshot_trouble(self, snapshot)

    def bin_sizes(self, operator: str) -> BinSizes | None:
        """For every bin what it held when it was last written as a snapshot; None while that is not known of each.

        So a figure is at most a cycle of snapshots old. It is counted, never estimated: until every bin has been written
        once (or is known to be empty), and in a checkpoint of a version that did not count, there is none.
        """
        _, snapshot_of = bringup.snapshot_starts(self, operator, self.last)
        known = np.zeros(self.bins, dtype=np.bool_)
        known[self.never_changed(operator).array] = True
        rows, size = np.zeros((2, self.bins), dtype=np.int64)
        for number in np.unique(snapshot_of[snapshot_of >= 0]).tolist():
            snapshot = self.snapshots[operator][number]
            loads = snapshot.sizes
            if loads is None:
                return None
            known[snapshot_of == number] = True
            if snapshot.file is not None:
                bins = snapshot.file.bins.array
                newest = snapshot_of[bins] == number
                rows[bins[newest]], size[bins[newest]] = loads.rows[newest], loads.bytes[newest]
        return BinSizes(rows, size) if known.all() else None

    def bin_bytes(self) -> npt.NDArray[np.int64] | None:
        """For every bin its bytes over all operators, by `bin_sizes`; None while those of one operator are not known."""
        loads = [self.bin_sizes(operator) for operator in self.operators]
        known = [each.bytes for each in loads if each is not None]
        if len(known) < len(loads):
            return None
        return np.sum(known, axis=0, dtype=np.int64) if known else np.zeros(self.bins, dtype=np.int64)

    def snapshot_epochs(self, operator: str) -> IntArray:
        """For every bin, the epoch of its newest snapshot; -1 if it has none."""
        starts, snapshot_of = bringup.snapshot_starts(self, operator, self.last)
        return np.where(snapshot_of >= 0, starts, np.int32(-1))


def named_manifests(before: tuple[Epoch, ...], records: Iterable[CommitRecord]) -> tuple[Epoch, ...]:
    """The newest `MANIFESTS_KEPT` manifests named, given those named before ``records``."""
    manifests = before
    for record in records:
        if record.manifest is not None and record.manifest not in manifests:
            manifests = (*manifests, Epoch(record.manifest))[-MANIFESTS_KEPT:]
    return manifests


def _with(
    held: Mapping[str, tuple[SnapshotRef, ...]], accepted: Iterable[SnapshotRef]
) -> Mapping[str, tuple[SnapshotRef, ...]]:
    """The snapshots by operator, ascending by epoch; of the same epoch the later accepted counts."""
    merged = dict(held)
    for snapshot in accepted:
        merged[snapshot.operator] = tuple(sorted((*merged[snapshot.operator], snapshot), key=lambda each: each.epoch))
    return merged
