"""What the log may forget: the floor, the index above it, and the files below it. Pure.

The *floor* is the oldest epoch of any file needed to rebuild some bin at the epoch before Spark's last committed one
(Spark may still replay the one after). Files of older epochs are garbage; so are files of recorded epochs that no record names
(runs that ended, invariant I3). A copy that is under way may need older files: nothing is collected meanwhile.

It must never name a file of a newer driver's term, nor of an epoch that is not recorded yet: both may be about to count.
Deleting is the caller's; a grace period comes on top, since a slow reader may hold an older list of files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from binshift.invariants import invariant
from binshift.log.index.bringup import UNKNOWN, snapshot_starts
from binshift.log.index.index import MANIFESTS_KEPT, Index, named_manifests
from binshift.log.records.commits import FileRef, fingerprint
from binshift.log.storage import layout
from binshift.log.storage.layout import FileName
from binshift.model import BinSet, Epoch, Term

TARGETS_KEPT = 16
"""Old targets that are kept; only the newest counts, the others are for people."""


def floor(index: Index, spark_committed: Epoch) -> Epoch:
    """The oldest epoch whose files must stay.

    ``spark_committed`` is the newest epoch that Spark itself has committed (at least one less than the last recorded,
    once a batch has begun).
    """
    lowest = index.base + 1
    keep = Epoch(min(spark_committed, index.last) - 1)
    if keep < lowest:
        return Epoch(lowest)
    needed = [keep]
    for operator in index.operators:
        starts, snapshot_of = snapshot_starts(index, operator, keep)
        if (starts == UNKNOWN).any():
            return Epoch(lowest)
        snapshotted = snapshot_of >= 0
        needed.append(Epoch(int(starts[snapshotted].min(initial=keep))))
        needed.append(_first_touch(index, operator, ~snapshotted, keep))
    return Epoch(max(lowest, min(needed)))


def _first_touch(index: Index, operator: str, bins: npt.NDArray[np.bool_], until: Epoch) -> Epoch:
    """The first epoch that wrote to one of ``bins``; ``until`` if none did before it."""
    if bins.any():
        for epoch in range(index.base + 1, until):
            if any(bins[touched.array].any() for touched in _touched(index, operator, Epoch(epoch))):
                return Epoch(epoch)
    return until


def _touched(index: Index, operator: str, epoch: Epoch) -> list[BinSet]:
    parts = index.records[epoch].parts
    return [part.delta.bins for part in parts if part.operator == operator and part.delta is not None]


def trimmed(index: Index, floor: Epoch) -> Index:
    """The index without the epochs before ``floor``; it answers as before for ``floor`` and later epochs.

    Raises:
        InvariantViolated: the floor is not one that `floor` gave for this index.
    """
    base = Epoch(floor - 1)
    if base <= index.base:
        return index
    invariant(base < index.last, f"a floor of {floor} would leave nothing of a log that ends with {index.last}")
    gone = [Epoch(e) for e in range(index.base + 1, floor)]
    untouched = dict(index.untouched)
    for operator in index.operators:
        touched = [bins.array for epoch in gone for bins in _touched(index, operator, epoch)]
        untouched[operator] -= BinSet(np.concatenate(touched) if touched else ())
    return replace(
        index,
        base=base,
        base_route=index.route_at(base),
        base_tip=fingerprint(index.record(base)),
        base_manifests=named_manifests(index.base_manifests, (index.records[epoch] for epoch in gone)),
        untouched=untouched,
        records={epoch: record for epoch, record in index.records.items() if epoch >= floor},
        snapshots={
            operator: tuple(snapshot for snapshot in snapshots if snapshot.epoch >= floor)
            for operator, snapshots in index.snapshots.items()
        },
    )


def garbage(index: Index, listed: Iterable[str], floor: Epoch, term: Term, pending: Collection[str] = ()) -> list[str]:
    """The files among ``listed`` that no reader can need, in the order of their deletion.

    ``pending`` are snapshots written but not yet named by a record; they stay whatever their epoch.
    """
    named = named_files(index)
    parsed = [(name, file) for name in listed if (file := layout.parse(name)) is not None and name not in pending]
    newest_target = max((file.number for _, file in parsed if file.kind == "targets"), default=0)
    found = [
        name
        for name, file in parsed
        if _is_garbage(index, name in named, file, floor, term)
        or (file.kind == "targets" and file.number <= newest_target - TARGETS_KEPT)
    ]
    return sorted(found)


def unheld(names: Iterable[str], held: Epoch) -> list[str]:
    """The names without the files of ``held`` and earlier epochs, which a copy of the log still needs."""
    parsed = [(name, layout.parse(name)) for name in names]
    return [name for name, file in parsed if file is None or file.kind not in _OF_EPOCHS or file.number > held]


_OF_EPOCHS = ("deltas", "snapshots", "records", "manifests")


def _is_garbage(index: Index, named: bool, file: FileName, floor: Epoch, term: Term) -> bool:
    match file.kind:
        case "deltas" | "snapshots":
            ended = file.number <= index.last and file.term <= term
            return ended and (file.number < floor or not named)
        case "records" | "manifests":
            # With one manifest alone, the way without it is the one from the very first record.
            return len(index.manifests) == MANIFESTS_KEPT and file.number < index.manifests[0]
        case "outputs":
            return file.number < floor
        case "partial" | "probes":
            return True
        case _:
            return False


def named_files(index: Index) -> dict[str, FileRef]:
    """Every delta and snapshot that a record above the base names, by its name: what counts."""
    deltas = [part.delta for record in index.records.values() for part in record.parts if part.delta]
    snapshots = [each.file for held in index.snapshots.values() for each in held if each.file]
    return {file.name: file for file in (*deltas, *snapshots)}
