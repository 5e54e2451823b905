"""A StreamingDataflowSnapshot as read from the API server, and the driver's report about its copy: frozen and typed.

Times are seconds since 1970; what is unknown is None. `binshift_operator.snapshot_codec` reads and writes the JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from binshift_operator.model.names import SnapshotKey


class SnapshotPhase(StrEnum):
    """The phases of a snapshot; the driver reports the same states."""

    PENDING = "Pending"
    COPYING = "Copying"
    COMPLETE = "Complete"
    FAILED = "Failed"


FINAL: Final = frozenset({SnapshotPhase.COMPLETE, SnapshotPhase.FAILED})
"""A snapshot in one of these phases never changes again."""


class SnapshotReason(StrEnum):
    """Why a snapshot is in its phase: the reasons of its conditions."""

    DATAFLOW_NOT_FOUND = "DataflowNotFound"
    INVALID_DATAFLOW = "InvalidDataflow"
    NO_LOCATION = "NoLocation"
    SUSPENDED = "Suspended"
    DRIVER_NOT_RUNNING = "DriverNotRunning"
    NOT_SUPPORTED = "NotSupported"
    QUEUED = "Queued"
    COPYING = "Copying"
    COMPLETE = "Complete"
    REFUSED = "Refused"
    COPY_FAILED = "CopyFailed"


@dataclass(frozen=True, slots=True)
class ObservedSnapshot:
    """A snapshot as the driver reports it; ``reason``: of a failure or of waiting."""

    location: str
    state: SnapshotPhase
    reason: str = ""
    epoch: int | None = None
    files: int | None = None
    bytes: int | None = None
    copied_bytes: int | None = None
    started_at: float | None = None
    finished_at: float | None = None


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """The status of a snapshot; see the CRD for each field. ``reason`` is only written: conditions have it."""

    phase: SnapshotPhase = SnapshotPhase.PENDING
    reason: SnapshotReason = SnapshotReason.QUEUED
    message: str = ""
    location: str = ""
    claim: str = ""
    epoch: int | None = None
    files: int | None = None
    bytes: int | None = None
    copied_bytes: int | None = None
    started_at: float | None = None
    completed_at: float | None = None

    @property
    def is_final(self) -> bool:
        """Whether it never changes again."""
        return self.phase in FINAL


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One StreamingDataflowSnapshot.

    Attributes:
        dataflow: the name of its dataflow; ``location``: as given in the spec, None for the default.
        periodic: whether it has the labels of a periodic snapshot of its dataflow.
    """

    key: SnapshotKey
    generation: int
    created_at: float
    dataflow: str
    location: str | None = None
    periodic: bool = False
    deleting: bool = False
    status: SnapshotStatus = SnapshotStatus()
