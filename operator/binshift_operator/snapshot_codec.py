"""A StreamingDataflowSnapshot as JSON: its spec and status as read, its status as written, and the manifest of a periodic one.

The status may have been edited by any client with the rights to do so: one that cannot be parsed counts as empty, and the snapshot as new.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from binshift_operator.json_records import Field, Record
from binshift_operator.model.names import (
    API_VERSION,
    LABEL_DATAFLOW,
    LABEL_PERIODIC,
    SNAPSHOT_KIND,
    DataflowKey,
    SnapshotKey,
)
from binshift_operator.model.snapshots import Snapshot, SnapshotPhase, SnapshotStatus
from binshift_operator.status_codec import TRUTH, format_time, parse_time

STATUS: Final = Record(
    SnapshotStatus,
    (
        Field("phase", "phase", SnapshotPhase, str),
        Field("message", "message", str, omit_empty=True),
        Field("location", "location", str, omit_empty=True),
        Field("claim", "claimName", str, omit_empty=True),
        Field("epoch", "epoch", int),
        Field("files", "files", int),
        Field("bytes", "bytes", int),
        Field("copied_bytes", "copiedBytes", int),
        Field("started_at", "startTime", parse_time, format_time),
        Field("completed_at", "completionTime", parse_time, format_time),
    ),
)
CONDITIONS: Final[Mapping[str, SnapshotPhase]] = {"Complete": SnapshotPhase.COMPLETE, "Failed": SnapshotPhase.FAILED}
"""The condition that is True in each of these phases, for `kubectl wait`."""


def parse_snapshot(manifest: Mapping[str, Any]) -> Snapshot:
    """The snapshot in an object of the API server."""
    meta, spec = manifest["metadata"], manifest["spec"]
    labels = meta.get("labels") or {}
    return Snapshot(
        key=SnapshotKey(meta["namespace"], meta["name"], meta["uid"]),
        generation=int(meta.get("generation") or 0),
        created_at=parse_time(meta["creationTimestamp"]),
        dataflow=str(spec["dataflow"]),
        location=spec.get("location"),
        periodic=labels.get(LABEL_PERIODIC) == "true" and labels.get(LABEL_DATAFLOW) == spec["dataflow"],
        deleting="deletionTimestamp" in meta,
        status=_decode(manifest.get("status") or {}),
    )


def _decode(found: Mapping[str, Any]) -> SnapshotStatus:
    try:
        return STATUS.read(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        return SnapshotStatus()


def is_unfinished(manifest: Mapping[str, Any]) -> bool:
    """Whether the snapshot in an object of the API server is to be reconciled."""
    return not _decode(manifest.get("status") or {}).is_final


def encode(snapshot: Snapshot, status: SnapshotStatus) -> dict[str, Any]:
    """The JSON of a status. A condition has been False since the snapshot was created."""
    conditions = [
        {
            "type": kind,
            "status": TRUTH[status.phase is phase],
            "reason": status.reason.value,
            "message": status.message,
            "observedGeneration": snapshot.generation,
            "lastTransitionTime": format_time(
                status.completed_at
                if status.phase is phase and status.completed_at is not None
                else snapshot.created_at
            ),
        }
        for kind, phase in CONDITIONS.items()
    ]
    return {**STATUS.write(status), "observedGeneration": snapshot.generation, "conditions": conditions}


def slot_name(dataflow: str, slot: float) -> str:
    """The name of the periodic snapshot of a slot: two creations for one slot are one object.

    >>> slot_name("clicks", 1_700_000_000.0)
    'clicks-20231114221320'
    """
    return f"{dataflow}-{datetime.fromtimestamp(slot, UTC):%Y%m%d%H%M%S}"


def periodic_labels(dataflow: str) -> dict[str, str]:
    """The labels of the periodic snapshots of a dataflow."""
    return {LABEL_DATAFLOW: dataflow, LABEL_PERIODIC: "true"}


def periodic_manifest(key: DataflowKey, slot: float) -> dict[str, Any]:
    """The manifest of a periodic snapshot; without an owner, as it outlives its dataflow."""
    return {
        "apiVersion": API_VERSION,
        "kind": SNAPSHOT_KIND,
        "metadata": {
            "name": slot_name(key.name, slot),
            "namespace": key.namespace,
            "labels": periodic_labels(key.name),
        },
        "spec": {"dataflow": key.name},
    }
