"""Answers of the control API about snapshots of a dataflow, and those of several queries as one.

A snapshot of a program with several queries has each query's in a folder with the query's name, at the location that was requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from binshift.control.models import REASON_CHARACTERS_MAX, moment
from binshift.control.savepoints import Snapshot
from binshift.control.services import ControlService
from binshift.errors import NoSuchSnapshot
from binshift.savepoints.requested import Requested
from binshift.savepoints.restoring import place_of
from binshift.savepoints.states import SavepointState

NOT_REQUESTED: Final = "not requested of this query yet: repeat the request"


def shown(requested: Requested) -> Snapshot:
    """One query's."""
    progress = requested.progress
    return Snapshot(
        name=requested.name,
        location=requested.location,
        state=requested.state,
        reason=requested.why[:REASON_CHARACTERS_MAX],
        epoch=progress.epoch,
        files=progress.files,
        bytes=progress.bytes,
        copied_files=progress.copied_files,
        copied_bytes=progress.copied_bytes,
        started_at=moment(requested.started_at),
        finished_at=moment(requested.finished_at),
    )


def joint_of(name: str, services: Mapping[str, ControlService]) -> Snapshot | None:
    """The one of that name of several queries, by the query's name; see `joint`."""
    return joint(name, {query: _one_of(service, name) for query, service in services.items()})


def _one_of(service: ControlService, name: str) -> Snapshot | None:
    try:
        return service.savepoint(name)
    except NoSuchSnapshot:
        return None


def joint(name: str, parts: Mapping[str, Snapshot | None]) -> Snapshot | None:
    """Those of several queries, by the query's name, as one; None if no query has one that belongs to a program's.

    Failed if one is; Complete only if all are. A query that was not requested keeps it pending.
    """
    known = {query: part for query, part in parts.items() if part is not None and part.location.endswith(f"/{query}")}
    if not known:
        return None
    found, missing = list(known.values()), [query for query in parts if query not in known]
    states = {part.state for part in found} | ({SavepointState.PENDING} if missing else set())
    ends = [part.finished_at for part in found]
    reasons = [f"{query}: {part.reason}" for query, part in known.items() if part.reason]
    reasons += [f"{query}: {NOT_REQUESTED}" for query in missing]
    query, first = next(iter(known.items()))
    return Snapshot(
        name=name,
        location=first.location.removesuffix(place_of("", query)),
        state=next(state for state in _WORST_FIRST if state in states),
        reason="; ".join(reasons)[:REASON_CHARACTERS_MAX],
        epoch=min((part.epoch for part in found if part.epoch is not None), default=None),
        files=sum(part.files for part in found),
        bytes=sum(part.bytes for part in found),
        copied_files=sum(part.copied_files for part in found),
        copied_bytes=sum(part.copied_bytes for part in found),
        started_at=min((part.started_at for part in found if part.started_at is not None), default=None),
        finished_at=None if None in ends or missing else max(end for end in ends if end is not None),
    )


_WORST_FIRST: Final = (
    SavepointState.FAILED,
    SavepointState.COPYING,
    SavepointState.PENDING,
    SavepointState.COMPLETE,
)
