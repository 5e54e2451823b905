"""What must be true of a commit record, given those before it: the log's own invariants, as pure checks.

A record that passes leaves the log in a state from which every bin can be rebuilt (I4), each owned by one worker (I1), after an
epoch that every worker finished (I3). The driver runs these checks before it writes a record, and each reader of the log runs
them again. Every failure names the record and the wrong value.
"""

from __future__ import annotations

import numpy as np

from binshift.errors import LogDamaged
from binshift.log.index.held import HeldRecords
from binshift.log.records import binsets, envelope
from binshift.log.records.commits import CommitRecord, Part, SnapshotRef
from binshift.log.storage import layout
from binshift.model import Epoch, IntArray, Worker
from binshift.routing import Route


def check_order(index: HeldRecords, record: CommitRecord) -> None:
    """Epochs follow each other, terms never go back, manifests are older than what names them.

    Raises:
        LogDamaged: not so.
    """
    name = layout.record_name(Epoch(max(0, record.epoch)))
    previous = index.records.get(index.last)
    if record.epoch != index.last + 1 and not (index.empty and record.epoch >= 0):
        raise LogDamaged(f"{name} follows the record of epoch {index.last}: those between are missing")
    if previous is not None and record.term < previous.term:
        raise LogDamaged(f"{name} was written in term {record.term}, after a record of term {previous.term}")
    if record.previous != index.tip:
        raise LogDamaged(f"{name} {_strange(index)}; {envelope.RESTORE}")
    newest = index.manifests[-1] if index.manifests else None
    if record.manifest is not None and not (newest or 0) <= record.manifest < record.epoch:
        raise LogDamaged(f"{name} names the manifest of epoch {record.manifest}; the one before was {newest}")
    if record.manifest is None and newest is not None:
        raise LogDamaged(f"{name} names no manifest; the record before named that of epoch {newest}")


def _strange(index: HeldRecords) -> str:
    if index.empty:
        return (
            f"is not this log's first: those before it are missing, or it belongs to another log than {layout.FORMAT}"
        )
    return f"does not follow the record of epoch {index.last}: one of the two is from another log or from another time"


def check_parts(index: HeldRecords, record: CommitRecord, route: Route) -> None:
    """One part for each (operator, worker), and in each delta only bins that the worker owns.

    Raises:
        LogDamaged: not so.
    """
    name = layout.record_name(Epoch(record.epoch))
    if list(record.workers) != sorted(set(record.workers)):
        raise LogDamaged(f"{name} has the workers {record.workers}, which are not ascending")
    if idle := set(route.workers) - set(record.workers):
        raise LogDamaged(f"{name} has a route to worker {min(idle)}, which took no part in the epoch")
    expected = sorted((operator, worker) for operator in index.operators for worker in record.workers)
    found = sorted((part.operator, part.worker) for part in record.parts)
    if found != expected:
        wrong = set(expected) ^ set(found) or {pair for pair in found if found.count(pair) > 1}
        raise LogDamaged(f"{name} must have one part for each operator and worker; it is wrong for {sorted(wrong)[:4]}")
    for part in record.parts:
        _check_delta(name, Epoch(record.epoch), part, route)


def _check_delta(name: str, epoch: Epoch, part: Part, route: Route) -> None:
    if part.delta is None:
        return
    expected = layout.delta_name(epoch, part.operator, Worker(part.worker), part.attempt)
    if part.delta.name != expected:
        raise LogDamaged(f"{name} names the delta {part.delta.name}; its attempt wrote {expected}")
    bins = _bins(name, part.delta.packed_bins, route.bins)
    foreign = bins[route.owners[bins] != part.worker]
    if foreign.size:
        raise LogDamaged(f"{name} has a delta of worker {part.worker} with bin {foreign[0]}, which it does not own")


def _bins(name: str, packed: str, limit: int) -> IntArray:
    try:
        bins = binsets.unpack(packed).array
    except ValueError as error:
        raise LogDamaged(f"{name} has bins that cannot be read: {error}") from error
    if bins.size and bins[-1] >= limit:
        raise LogDamaged(f"{name} names bin {bins[-1]}; there are {limit}")
    return bins


def snapshot_trouble(index: HeldRecords, snapshot: SnapshotRef) -> str | None:
    """Why a snapshot cannot be accepted by the next record; None if it can.

    A snapshot counts only if it was read from exactly the state that the record of its epoch names, by the worker that
    owned the bins then. One whose epoch has fallen below the floor meanwhile is of no use any more.
    """
    epoch = Epoch(snapshot.epoch)
    if snapshot.operator not in index.operators:
        return f"there is no operator {snapshot.operator!r}"
    if not index.base < epoch <= index.last:
        return f"its epoch {epoch} is not one of the recorded epochs {index.base + 1} to {index.last}"
    stamp = index.stamp(snapshot.operator, Worker(snapshot.worker), epoch)
    if stamp != snapshot.stamp:
        return f"it was read from the state {snapshot.stamp}, but the record names {stamp}"
    try:
        bins = _bins("it", snapshot.packed_bins, index.bins)
        rows = _bins("its file", snapshot.file.packed_bins if snapshot.file else "", index.bins)
        _ = snapshot.sizes
    except (LogDamaged, ValueError) as error:
        return str(error)
    route = index.route_at(epoch)
    if (route.owners[bins] != snapshot.worker).any():
        return f"worker {snapshot.worker} did not own all of its bins in epoch {epoch}"
    if not bins.size or not np.isin(rows, bins, assume_unique=True).all():
        return "it claims no bins, or its file has rows of bins that it does not claim"
    if snapshot.file is not None:
        file = layout.parse(snapshot.file.name)
        if file is None or (file.kind, file.number, file.operator) != ("snapshots", epoch, snapshot.operator):
            return f"its file's name is {snapshot.file.name}"
    return None


def reachable_snapshots(index: HeldRecords, record: CommitRecord) -> list[SnapshotRef]:
    """The snapshots of ``record`` but for those of epochs that the index does not hold any more.

    Those were checked when the record was written; now nothing can be rebuilt from them, and their files may be gone.
    """
    forgotten = index.base_route is not None
    return [snapshot for snapshot in record.snapshots if not (forgotten and snapshot.epoch <= index.base)]


def check_snapshots(index: HeldRecords, record: CommitRecord) -> None:
    """Every snapshot that the record accepts is acceptable.

    Raises:
        LogDamaged: one is not.
    """
    for snapshot in reachable_snapshots(index, record):
        if trouble := snapshot_trouble(index, snapshot):
            name = layout.record_name(Epoch(record.epoch))
            raise LogDamaged(f"{name} accepts a snapshot of {snapshot.operator!r} that is not valid: {trouble}")
