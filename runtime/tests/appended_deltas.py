"""Logs of one worker, written without an engine."""

from __future__ import annotations

from binshift.entries import Entries
from binshift.log.files.blocks import write_file
from binshift.log.log import Log
from binshift.log.records.commits import CommitRecord, Part, whole_route
from binshift.log.storage import layout
from binshift.model import Epoch, Worker
from binshift.routing import Route


def append_delta(log: Log, operator: str, epoch: int, changed: Entries, route: Route) -> None:
    """Append the record of an epoch in which the only worker has changed these rows."""
    attempt = f"{log.term}.{epoch}"
    name = layout.delta_name(Epoch(epoch), operator, Worker(0), attempt)
    log.append(
        CommitRecord(
            epoch=epoch,
            term=log.term,
            run=0,
            previous=log.index.tip,
            batch_time_ms=epoch,
            offsets_hash="",
            route_version=route.version,
            moves=() if epoch else whole_route(route),
            workers=(0,),
            parts=(Part(operator, 0, attempt, write_file(log.storage, name, [changed])),),
        )
    )
