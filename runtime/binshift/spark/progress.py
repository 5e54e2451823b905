"""Spark's progress reports with Spark's ``stateOperators`` filled in: what a stateful operator did in an epoch.

Spark finds stateful operators in the plan of a batch, and binshift's is none of Spark's own; so it reports an empty list.
What is here takes Spark's report as it is and puts an entry for each operator in, with Spark's names and types. It reads
what tasks reported, and never asks a store or a log.

An entry is sums over the workers, as in Spark over the partitions. Where binshift's figure is another one than Spark's:

- ``operatorName``: the operator's name on the log.
- ``numRowsTotal``: rows in the workers' stores. That is a row for each key; one more for each group that a watermark is
  to end; and, while bins move, the rows of copies.
- ``allUpdatesTimeMs``: the time S ran. Waiting for input and for a slow sink is in it, and so are removals:
- ``allRemovalsTimeMs``: always 0, as it is not measured apart.
- ``commitTimeMs``: writing deltas to the log, and committing the stores.
- ``memoryUsedBytes``: bytes of the stores' pages. They are files that the system keeps in memory as it can.
- ``customMetrics``: ``bins``, ``workers``, ``routeVersion``, ``deltaBytes`` (written to the log, compressed as there),
  ``binsBroughtUp`` (loaded inside the epoch: 0 in a calm one), ``runs`` (1 unless the epoch had to run again).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pyspark.sql.streaming.listener import StreamingQueryProgress

from binshift.engine.epochplan import EpochPlan
from binshift.protocol.spec import Summary

if TYPE_CHECKING:
    from binshift.spark.timings import EpochTimings

DELTA_SECONDS = ("delta", "commit")
"""Parts of a task's time that make what it did durable."""

_published: WeakValueDictionary[str, deque[EpochTimings]] = WeakValueDictionary()


@dataclass(frozen=True)
class StateFigures:
    """What one stateful operator did in one epoch, over all workers.

    Attributes:
        operator: its name.
        rows_stored: rows in the stores afterwards, copies and indexes included.
        bytes_stored: bytes they take there, roughly.
        states_set: keys whose state is new or another one.
        states_deleted: keys that have no state any more.
        rows_late: rows dropped because of the watermark; after the JVM's own aggregation, as in Spark.
        process_seconds: time S ran, over all tasks.
        commit_seconds: time for deltas and the stores' commits, over all tasks.
        delta_bytes: written to the log.
        brought_up: bins loaded inside the epoch.
        workers: tasks of the epoch, and so stores.
        bins: of the dataflow.
        route_version: of the epoch's route.
    """

    operator: str
    rows_stored: int
    bytes_stored: int
    states_set: int
    states_deleted: int
    rows_late: int
    process_seconds: float
    commit_seconds: float
    delta_bytes: int
    brought_up: int
    workers: int
    bins: int
    route_version: int


def figures(plan: EpochPlan, summaries: Iterable[Summary]) -> tuple[StateFigures, ...]:
    """What the operators of an epoch did, by name; summaries that came twice count once."""
    once = {(each.operator, each.worker): each for each in summaries}
    by_operator: dict[str, list[Summary]] = {}
    for (operator, _), summary in sorted(once.items()):
        by_operator.setdefault(operator, []).append(summary)
    return tuple(_of_operator(plan, operator, parts) for operator, parts in by_operator.items())


def _of_operator(plan: EpochPlan, operator: str, parts: Sequence[Summary]) -> StateFigures:
    return StateFigures(
        operator=operator,
        rows_stored=sum(each.rows_stored for each in parts),
        bytes_stored=sum(each.bytes_stored for each in parts),
        states_set=sum(each.states_set for each in parts),
        states_deleted=sum(each.states_deleted for each in parts),
        rows_late=sum(each.rows_late for each in parts),
        process_seconds=sum(each.seconds.get("process", 0.0) for each in parts),
        commit_seconds=sum(each.seconds.get(part, 0.0) for each in parts for part in DELTA_SECONDS),
        delta_bytes=sum(each.delta.bytes for each in parts if each.delta is not None),
        brought_up=sum(each.brought_up for each in parts),
        workers=len(parts),
        bins=plan.route.bins,
        route_version=plan.route.version,
    )


def filled(progress: StreamingQueryProgress, timings: Sequence[EpochTimings]) -> StreamingQueryProgress:
    """``progress`` with its ``stateOperators``, of the same type.

    A report of a trigger that ran nothing has what is stored, and 0 for whatever is done: as in Spark. One of an epoch
    that is not among ``timings`` stays as Spark made it.

    Args:
        progress: Spark's own.
        timings: of the newest epochs, ascending.
    """
    ran = "addBatch" in progress.durationMs
    epoch = progress.batchId if ran else progress.batchId - 1
    found = next((each for each in reversed(timings) if each.epoch == epoch), None)
    if found is None:
        return progress
    document = json.loads(progress.json)
    document["stateOperators"] = [_entry(each, found.runs, ran) for each in found.operators]
    return StreamingQueryProgress.fromJson(document)


def _entry(done: StateFigures, runs: int, ran: bool) -> Mapping[str, Any]:
    """The entry as Spark's JSON has it, in its order."""
    return {
        "operatorName": done.operator,
        "numRowsTotal": done.rows_stored,
        "numRowsUpdated": done.states_set * ran,
        "allUpdatesTimeMs": _milliseconds(done.process_seconds) * ran,
        "numRowsRemoved": done.states_deleted * ran,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": _milliseconds(done.commit_seconds) * ran,
        "memoryUsedBytes": done.bytes_stored,
        "numRowsDroppedByWatermark": done.rows_late * ran,
        "numShufflePartitions": done.workers,
        "numStateStoreInstances": done.workers,
        "customMetrics": {
            "bins": done.bins,
            "workers": done.workers,
            "routeVersion": done.route_version,
            "deltaBytes": done.delta_bytes * ran,
            "binsBroughtUp": done.brought_up * ran,
            "runs": runs * ran,
        },
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def publish(query_id: str, timings: deque[EpochTimings]) -> None:
    """Let `filled_by_id` find the timings of a query that starts, for as long as somebody else holds them."""
    _published[query_id] = timings


def filled_by_id(progress: StreamingQueryProgress) -> StreamingQueryProgress:
    """`filled` with the timings of the query that ``progress`` names; of a query of Spark's own it stays as it is."""
    timings = _published.get(str(progress.id))
    return progress if timings is None else filled(progress, tuple(timings))
