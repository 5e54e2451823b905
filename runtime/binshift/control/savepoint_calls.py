"""The calls of the control API for snapshots of the dataflow; `savepoints` has what they send and answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from binshift.control.choice import Choice
from binshift.control.problems import Document, documented
from binshift.control.savepoints import (
    NAME,
    NAME_CHARACTERS_MAX,
    RemovalParameters,
    Snapshot,
    SnapshotRequest,
    Snapshots,
)
from binshift.control.services import ControlService
from binshift.savepoints.states import SavepointState

SnapshotPath = Annotated[str, Path(pattern=NAME, max_length=NAME_CHARACTERS_MAX)]

_BAD_BODY = documented(HTTPStatus.CONFLICT, HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
_UNFINISHED: Document = {202: {"model": Snapshot, "description": "It waits, or is being copied"}}


def snapshots(choice: Choice, router: APIRouter) -> APIRouter:
    """Adds the calls of the chosen query to ``router``."""
    chosen = Depends(choice.service)

    @router.get("/snapshots")
    def listed(service: ControlService = chosen) -> Snapshots:
        """The newest snapshots of the dataflow that were requested since the driver has started."""
        return Snapshots(snapshots=list(service.savepoints()))

    @router.get("/snapshots/{name}", responses=documented(HTTPStatus.NOT_FOUND))
    def one(name: SnapshotPath, service: ControlService = chosen) -> Snapshot:
        """One snapshot: its state, and how much is copied."""
        return service.savepoint(name)

    @router.put("/snapshots/{name}", responses={**_BAD_BODY, **_UNFINISHED})
    def put(
        name: SnapshotPath, wanted: SnapshotRequest, response: Response, service: ControlService = chosen
    ) -> Snapshot:
        """Copy the checkpoint at one epoch to an empty location while the dataflow runs; the same request again changes nothing.

        Repeat the request while it is pending: it is not remembered while 100 others wait. After a restart of the driver, the same request continues the copy, or finds it complete.
        """
        found = service.put_savepoint(name, wanted.location)
        unfinished = found.state in (SavepointState.PENDING, SavepointState.COPYING)
        response.status_code = HTTPStatus.ACCEPTED if unfinished else HTTPStatus.OK
        return found

    @router.delete("/snapshots/{name}", status_code=204, responses=_BAD_BODY)
    def remove(
        name: SnapshotPath,
        where: Annotated[RemovalParameters, Query()],
        wanted: SnapshotRequest | None = None,
        service: ControlService = chosen,
    ) -> None:
        """End the copy, and remove the snapshot's files at its location (a parameter, or as in PUT); can be repeated."""
        service.remove_savepoint(name, wanted.location if wanted else where.location)

    return router
