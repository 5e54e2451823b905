"""What an index holds of the log, and what can be read from it record by record. Pure.

An index holds the records after its *base*; of what came before it only keeps the route and which bins had no row yet, since
everything else is in snapshots by then (`retention` moves the base). The checks of a next record (`continuity`) and the way of a bin
to an epoch (`bringup`) are computed from this alone, so that neither needs to know the whole `Index`, which joins them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from binshift.errors import InvalidRoute, LogDamaged
from binshift.log.records.commits import Assignment, CommitRecord, SnapshotRef, fingerprint
from binshift.log.storage import layout
from binshift.model import BEFORE_FIRST, GENESIS, BinSet, Epoch, IntArray, Moves, Stamp, Worker
from binshift.routing import Route


@dataclass(frozen=True, slots=True)
class HeldRecords:
    """The records of a log from a base on.

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

    def record(self, epoch: Epoch) -> CommitRecord:
        """The record of ``epoch``: its time, watermark, offsets hash, attempts.

        Raises:
            LogDamaged: the epoch is not recorded, or not held any more.
        """
        if epoch not in self.records:
            name = layout.record_name(Epoch(max(0, epoch)))
            raise LogDamaged(f"{name} is needed, but the log holds the epochs {self.base + 1} to {self.last}").about(
                file=name, epoch=epoch
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
                route = next_route(self.bins, route, record)
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

    def never_changed(self, operator: str) -> BinSet:
        """The bins that no epoch has put a row into."""
        changed = np.zeros(self.bins, dtype=np.bool_)
        for record in self.records.values():
            for part in record.parts:
                if part.operator == operator and part.delta is not None:
                    changed[part.delta.bins.array] = True
        return self.untouched[operator] - BinSet(np.flatnonzero(changed).astype(np.int32))


def next_route(bins: int, route: Route | None, record: CommitRecord) -> Route:
    """The route of the record's epoch, given that of the epoch before (None: this is the log's first record).

    Raises:
        LogDamaged: it does not follow from the one before, or leaves a bin without an owner.
    """
    name = layout.record_name(Epoch(record.epoch))
    try:
        if route is None:
            return whole_route(bins, record.moves, record.route_version)
        moved, workers = _assigned(record.moves)
        if moved.size and moved.max() >= bins:
            raise InvalidRoute(f"it moves bin {moved.max()}; there are {bins}")
        if moved.size:
            sources = route.owners[moved]
            if (sources == workers).any():
                raise InvalidRoute(f"it moves bin {moved[sources == workers][0]} to the worker that has it")
            route = route.moved(Moves(moved, sources, workers))
    except (InvalidRoute, ValueError) as error:
        raise LogDamaged(f"{name} has a route that does not follow from the one before: {error}") from error
    if route.version != record.route_version:
        raise LogDamaged(f"{name} has route version {record.route_version}; its moves lead to {route.version}")
    return route


def whole_route(bins: int, assignments: Sequence[Assignment], version: int) -> Route:
    """The route in which each of ``bins`` bins has the owner that ``assignments`` give it.

    Raises:
        InvalidRoute: a bin has none, or two.
        ValueError: packed bins cannot be read.
    """
    assigned, workers = _assigned(assignments)
    if not np.array_equal(np.sort(assigned), np.arange(bins)):
        raise InvalidRoute(f"each of {bins} bins needs exactly one owner; owners are given for {assigned.size}")
    owners = np.empty(bins, dtype=np.int32)
    owners[assigned] = workers
    return Route(owners, version)


def _assigned(assignments: Sequence[Assignment]) -> tuple[IntArray, IntArray]:
    """Bins and their new owners, equally long."""
    arrays = [each.bins.array for each in assignments]
    owners = np.array([each.worker for each in assignments], dtype=np.int32)
    bins = np.concatenate([np.empty(0, dtype=np.int32), *arrays])
    return bins, np.repeat(owners, [array.size for array in arrays])
