"""Decides what an empty checkpoint begins with, if `checkpoint.restoreFrom` names a snapshot."""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.model.snapshot_spec import RestoreProblem
from binshift_operator.model.snapshots import Snapshot, SnapshotPhase
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status


def with_known_location(dataflow: Dataflow, status: Status) -> Dataflow:
    """The dataflow with the location of its snapshot, if the status has it: a snapshot that was found once can be gone later."""
    known, source = status.restored, dataflow.restore_from
    same = known is not None and source is not None and known.snapshot == source.snapshot
    return replace(dataflow, restore_from=known) if same else dataflow


def restore_location(dataflow: Dataflow, name: str, snapshot: Snapshot | None) -> str | RestoreProblem:
    """The location of the snapshot of this name, or why it cannot be used: it must be complete, and on a volume of the dataflow."""
    if snapshot is None:
        return RestoreProblem(
            f"there is no StreamingDataflowSnapshot {name} (checkpoint.restoreFrom.snapshot) in this namespace: create it or set "
            "restoreFrom.location; remove restoreFrom if the checkpoint is not empty, where it has no effect",
            lasting=True,
        )
    status, kept = snapshot.status, dataflow.checkpoint
    if status.phase is not SnapshotPhase.COMPLETE:
        circular = status.phase is SnapshotPhase.PENDING and snapshot.dataflow == dataflow.key.name
        why = status.message or "it has just been created"
        if circular:
            why += "; it is a snapshot of this dataflow, whose next start waits for it: name another one"
        return RestoreProblem(
            f"StreamingDataflowSnapshot {name} (checkpoint.restoreFrom.snapshot) is {status.phase.value}: {why}",
            lasting=circular or status.phase is SnapshotPhase.FAILED,
        )
    if status.claim and status.claim != kept.claim:
        return RestoreProblem(
            f"StreamingDataflowSnapshot {name} is on PersistentVolumeClaim {status.claim}, and this checkpoint is on "
            f"{kept.claim or kept.location}: create the dataflow with checkpoint.claimName {status.claim} and another path, or make a "
            "snapshot at a location in an object store",
            lasting=True,
        )
    return status.location
