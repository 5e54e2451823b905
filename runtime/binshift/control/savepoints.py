"""Snapshots of a dataflow in the control API: what is sent and answered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from binshift.control.answer import Answer
from binshift.control.requests import Body, Parameters
from binshift.savepoints.states import SavepointState

NAME: Final = "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
NAME_CHARACTERS_MAX: Final = 253
LOCATION_CHARACTERS_MAX: Final = 1024

Location = Annotated[str, Field(min_length=1, max_length=LOCATION_CHARACTERS_MAX, pattern=r"^[^\x00-\x1f\x7f]+$")]


class SnapshotRequest(Body):
    """A snapshot of the dataflow, for another dataflow to start from."""

    location: Location = Field(description="An empty directory or prefix: a path, or s3a://.")


class RemovalParameters(Parameters):
    """Where the snapshot is."""

    location: Location | None = Field(default=None, description="As requested in this run, if it is left out.")


class Snapshot(Answer):
    """A snapshot of the dataflow, and how far its copy is."""

    name: str
    location: str
    state: SavepointState = Field(description="Only Complete and Failed are final.")
    reason: str = Field(description="Why it waits or has failed; else empty.")
    epoch: int | None = Field(
        description="The last epoch in it; null until it is chosen. Of several queries the lowest."
    )
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int
    started_at: datetime | None
    finished_at: datetime | None


class Snapshots(Answer):
    """The newest ones that were requested since the driver has started, the newest last."""

    snapshots: list[Snapshot]
