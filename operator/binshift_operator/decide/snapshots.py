"""Decides what becomes of one snapshot: its next status, from the dataflow's spec and the driver's report, and when to check again.

A snapshot waits as Pending while there is no driver to make the copy, and begins again after each interruption: the request to the driver
is idempotent. Complete and Failed are final.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from binshift_operator.model.locations import claim_of, snapshot_location
from binshift_operator.model.messages import truncate
from binshift_operator.model.snapshots import (
    ObservedSnapshot,
    Snapshot,
    SnapshotPhase,
    SnapshotReason,
    SnapshotStatus,
)
from binshift_operator.model.specification import Dataflow
from binshift_operator.status import EventRecord

CHECKS_PER_DOUBLING: Final = 20.0
"""Number of checks while the age of a snapshot doubles."""
CLOCK_SECONDS_MAX: Final = 5.0
"""How far the clocks of the driver and of the API server can differ."""
CHECK_SECONDS_MIN: Final = 1.0
COPYING_SECONDS_MAX: Final = 10.0
PENDING_SECONDS_MAX: Final = 60.0
"""Between two checks of a snapshot that is being copied, and of one that waits."""


def locate(snapshot: Snapshot, dataflow: Dataflow | None) -> SnapshotStatus:
    """The status with the location, which is decided once; without a location there, the snapshot waits for its dataflow."""
    status, name = snapshot.status, snapshot.dataflow
    if dataflow is None:
        return wait(
            status, SnapshotReason.DATAFLOW_NOT_FOUND, f"there is no StreamingDataflow {name} in this namespace"
        )
    if status.location:  # the next driver makes all of the copy, on its own claim
        return status if dataflow.parse_error else replace(status, claim=claim_of(dataflow, status.location))
    if dataflow.parse_error:
        message = f"the spec of StreamingDataflow {name} is invalid: {dataflow.parse_error}"
        return wait(status, SnapshotReason.INVALID_DATAFLOW, message)
    try:
        location = snapshot_location(dataflow, snapshot.key.name, snapshot.location)
    except ValueError as error:
        return wait(status, SnapshotReason.NO_LOCATION, str(error))
    message = "the driver is to begin the copy"
    return replace(status, location=location, claim=claim_of(dataflow, location), message=message)


def wait(status: SnapshotStatus, reason: SnapshotReason, message: str) -> SnapshotStatus:
    """The status of a snapshot that waits; a copy that was interrupted begins again."""
    return replace(status, phase=SnapshotPhase.PENDING, reason=reason, message=truncate(message), copied_bytes=None)


def wait_for_driver(status: SnapshotStatus, dataflow: Dataflow, why: str) -> SnapshotStatus:
    """The status while no driver can make the copy; ``why``: what is known about the driver."""
    name = dataflow.key.name
    if dataflow.suspend:
        message = f"StreamingDataflow {name} is suspended: the snapshot is made once it runs again"
        return wait(status, SnapshotReason.SUSPENDED, message)
    return wait(status, SnapshotReason.DRIVER_NOT_RUNNING, f"the driver of {name} does not make the copy yet: {why}")


def refuse(status: SnapshotStatus, error: str, now: float) -> SnapshotStatus:
    """The status after the driver has refused the snapshot, which is final.

    If no copy was begun, it has no location: what is there belongs to another one, and must never be removed for this one.
    """
    message = truncate(f"{status.location} is refused: {error}. Create another snapshot with another location or name")
    status = replace(status, location="", claim="") if status.epoch is None else status
    return replace(status, phase=SnapshotPhase.FAILED, reason=SnapshotReason.REFUSED, message=message, completed_at=now)


def follow(snapshot: Snapshot, status: SnapshotStatus, report: ObservedSnapshot, now: float) -> SnapshotStatus:
    """The status after a report of the driver."""
    if report.state is SnapshotPhase.PENDING:
        return wait(status, SnapshotReason.QUEUED, report.reason or "the driver has not begun the copy yet")
    earlier = _seconds_before_creation(snapshot, status, report)
    if earlier > CLOCK_SECONDS_MAX:  # it was made for a deleted object of the same name, whose files were kept
        message = (
            f"it already has the snapshot {snapshot.key.name} of epoch {report.epoch}, finished {earlier:.0f} s before this object was "
            "created: remove its files, or use another name"
        )
        return refuse(status, message, now)
    epoch = status.epoch if report.epoch is None else report.epoch
    if report.state is SnapshotPhase.FAILED and epoch is None:  # nothing was begun, as the location has something else
        return refuse(status, report.reason or "the driver's log has the reason", report.finished_at or now)
    reason = {
        SnapshotPhase.COPYING: SnapshotReason.COPYING,
        SnapshotPhase.COMPLETE: SnapshotReason.COMPLETE,
        SnapshotPhase.FAILED: SnapshotReason.COPY_FAILED,
    }[report.state]
    final = report.state is not SnapshotPhase.COPYING
    return replace(
        status,
        phase=report.state,
        reason=reason,
        message=truncate(report.reason) or _message(report, status.location),
        epoch=epoch,
        files=report.files,
        bytes=report.bytes,
        copied_bytes=report.copied_bytes,
        started_at=report.started_at or status.started_at or now,
        completed_at=(report.finished_at or now) if final else None,
    )


def _seconds_before_creation(snapshot: Snapshot, status: SnapshotStatus, report: ObservedSnapshot) -> float:
    """How long before the object it was complete; 0 if it was not, or was seen to be copied for this object."""
    if report.state is not SnapshotPhase.COMPLETE or report.finished_at is None or status.started_at is not None:
        return 0.0
    return snapshot.created_at - report.finished_at


def _message(report: ObservedSnapshot, location: str) -> str:
    match report.state:
        case SnapshotPhase.COMPLETE:
            return f"epoch {report.epoch} is at {location}"
        case SnapshotPhase.FAILED:
            return "the copy has failed; the driver's log has the reason"
        case _:
            what = "the checkpoint" if report.epoch is None else f"epoch {report.epoch}"
            return f"{what} is being copied to {location}"


def seconds_to_next_check(snapshot: Snapshot, status: SnapshotStatus, now: float) -> float:
    """The older a snapshot is, the less often it is checked."""
    most = COPYING_SECONDS_MAX if status.phase is SnapshotPhase.COPYING else PENDING_SECONDS_MAX
    return min(max((now - snapshot.created_at) / CHECKS_PER_DOUBLING, CHECK_SECONDS_MIN), most)


def snapshot_events(before: SnapshotStatus, after: SnapshotStatus) -> tuple[EventRecord, ...]:
    """The event of a snapshot that has ended."""
    if before.phase is after.phase or not after.is_final:
        return ()
    failed = after.phase is SnapshotPhase.FAILED
    return (EventRecord("SnapshotFailed" if failed else "SnapshotCompleted", after.message, warning=failed),)
