"""The log in memory: what the records say, and what follows from it. Pure; never touches a file.

An `Index` is immutable: applying a record gives the next one, so a thread that plans copies or writes a manifest keeps a
consistent picture while epochs go on. It holds the records after its *base*; of what came before it only keeps the
route and which bins had no row yet, since everything else is in snapshots by then (`retention` moves the base).

It answers: which route, stamp, time and watermark had an epoch; which files lead a bin to an epoch. It believes no record
that does not fit the ones before it (`continuity`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from binshift.errors import LogDamaged
from binshift.invariants import invariant
from binshift.log import bringup, continuity, layout
from binshift.log.bin_sizes import BinSizes
from binshift.log.bringup import BringUp as BringUp
from binshift.log.records import CommitRecord, SnapshotRef, fingerprint
from binshift.model import BEFORE_FIRST, GENESIS, BinSet, Epoch, IntArray, Moves, Stamp, Worker
from binshift.routing import Route

MANIFESTS_KEPT = 2
"""How many named manifests are kept: should the newest be damaged, the one before and the records since replace it."""


@dataclass(frozen=True, slots=True)
class Index:
    """An image of the log.

    Attributes:
        bins: how many bins there are.
        operators: the names of the stateful operators.
        root: `LogFormat.fingerprint` of the log.
        base: records after this epoch are held.
        base_route: the route of the base; None while no epoch was dropped.
        base_tip: what the first record after the base must follow: `fingerprint` of the base's record, or of the log.
        untouched: by operator, the bins that had no row up to the base: there they are empty.
        records: by epoch, without gaps.
        snapshots: by operator, ascending by epoch.
        base_manifests: epochs of the newest `MANIFESTS_KEPT` manifests named by records up to the base, ascending.
        manifests: the same as of the last record.
        route: of the last epoch; None before the first.
        unusable: deltas and snapshots that turned out damaged or missing: nothing is built from them.
    """

    bins: int
    operators: tuple[str, ...]
    root: str = ""
    base: Epoch = BEFORE_FIRST
    base_route: Route | None = None
    base_tip: str = ""
    untouched: Mapping[str, BinSet] = field(default_factory=dict)
    records: Mapping[Epoch, CommitRecord] = field(default_factory=dict)
    snapshots: Mapping[str, tuple[SnapshotRef, ...]] = field(default_factory=dict)
    base_manifests: tuple[Epoch, ...] = ()
    manifests: tuple[Epoch, ...] = ()
    route: Route | None = None
    unusable: frozenset[str] = frozenset()

    @classmethod
    def new(cls, bins: int, operators: Iterable[str], root: str = "") -> Index:
        """The index of a log without records; ``root`` is `LogFormat.fingerprint`."""
        names = tuple(operators)
        invariant(names and len(set(names)) == len(names), f"operators need names of their own; got {names}")
        every = BinSet(np.arange(bins, dtype=np.int32))
        untouched, snapshots = dict.fromkeys(names, every), dict.fromkeys(names, ())
        return cls(bins, names, root, base_tip=root, untouched=untouched, snapshots=snapshots)

    @property
    def empty(self) -> bool:
        """Whether there was no epoch yet."""
        return not self.records and self.base_route is None

    @property
    def last(self) -> Epoch:
        """The newest recorded epoch; `BEFORE_FIRST` if there is none."""
        return Epoch(self.base + len(self.records))

    @property
    def tip(self) -> str:
        """What the next record must follow."""
        return fingerprint(self.records[self.last]) if self.records else self.base_tip

    def apply(self, record: CommitRecord) -> Index:
        """The index after ``record``.

        Raises:
            LogDamaged: the record does not fit; the message says how.
        """
        continuity.check_order(self, record)
        route = continuity.next_route(self.bins, self.route, record)
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

    def record(self, epoch: Epoch) -> CommitRecord:
        """The record of ``epoch``: its time, watermark, offsets hash, attempts.

        Raises:
            LogDamaged: the epoch is not recorded, or not held any more.
        """
        if epoch not in self.records:
            raise LogDamaged(
                f"{layout.record_name(Epoch(max(0, epoch)))} is needed, but the log holds the epochs "
                f"{self.base + 1} to {self.last}"
            )
        return self.records[epoch]

    def route_at(self, epoch: Epoch) -> Route:
        """The route of an epoch that is held, or of the base.

        Raises:
            LogDamaged: the epoch is not recorded, or not held any more.
        """
        if epoch == self.base and self.base_route is not None:
            return self.base_route
        self.record(epoch)
        if self.route is not None and not any(self.records[Epoch(e)].moves for e in range(epoch + 1, self.last + 1)):
            return self.route
        route = self.base_route
        for each in range(self.base + 1, epoch + 1):
            record = self.records[Epoch(each)]
            if route is None or record.moves:
                route = continuity.next_route(self.bins, route, record)
        assert route is not None
        return route

    def moves_at(self, epoch: Epoch) -> Moves:
        """The bins that changed owner with ``epoch``; none for a log's first. Errors as `route_at`."""
        if self.base_route is None and epoch == self.base + 1:
            return Moves([], [], [])
        return self.route_at(Epoch(epoch - 1)).moves_to(self.route_at(epoch).owners)

    def stamp(self, operator: str, worker: Worker, epoch: Epoch) -> Stamp | None:
        """The state that the record of ``epoch`` names for ``worker``; None if it took no part. Errors as `record`.

        Before a log's first epoch every worker is at `GENESIS`.
        """
        if epoch == self.base and self.base_route is None:
            return GENESIS
        for part in self.record(epoch).parts:
            if part.operator == operator and part.worker == worker:
                return Stamp(epoch, part.attempt)
        return None

    def sources(self, operator: str, bins: BinSet, have: Mapping[int, int], to: Epoch) -> BringUp:
        """As `sources_or_lost`, for whoever needs all of ``bins``.

        Raises:
            LogDamaged: a bin cannot be rebuilt.
            InvariantViolated: as `sources_or_lost`.
        """
        found = self.sources_or_lost(operator, bins, have, to)
        found.check_not_lost(bins)
        return found

    def sources_or_lost(self, operator: str, bins: BinSet, have: Mapping[int, int], to: Epoch) -> BringUp:
        """Which files lead ``bins`` to the state recorded for ``to``; exactly those, and no bin more.

        ``have`` says for bins that are held already at which recorded epoch; a copy newer than ``to``, or older than
        what the log reaches back to, is loaded afresh.

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

    def never_changed(self, operator: str) -> BinSet:
        """The bins that no epoch has put a row into."""
        changed = np.zeros(self.bins, dtype=np.bool_)
        for record in self.records.values():
            for part in record.parts:
                if part.operator == operator and part.delta is not None:
                    changed[part.delta.bins.array] = True
        return self.untouched[operator] - BinSet(np.flatnonzero(changed).astype(np.int32))

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
