"""Spark's progress reports with ``stateOperators`` filled in: what a stateful operator did in an epoch, and what was observed behind it.

Spark finds stateful operators in the plan of a batch, and binshift's operator is not a Spark operator, so Spark reports an empty
list. This module adds an entry for each operator to Spark's report, with Spark's names and types. It reads what tasks reported
and never reads a store or a log.

The values of an entry are sums over the workers, as in Spark over the partitions. Where a value differs from Spark's:

- ``numRowsTotal``: rows in the workers' stores: one row per key, one more for each group that a watermark will close and,
  while bins move, the rows of copies.
- ``allUpdatesTimeMs``: the time S ran, including waiting for input and for a slow sink, and removals.
- ``allRemovalsTimeMs``: always 0, as it is not measured separately.
- ``commitTimeMs``: writing deltas to the log, and committing the stores.
- ``memoryUsedBytes``: bytes of the stores' pages. They are files that the operating system caches in memory.
- ``customMetrics``: ``bins``, ``workers``, ``routeVersion``, ``deltaBytes`` (written to the log, compressed as there),
  ``binsBroughtUp`` (loaded inside the epoch: 0 in a calm one), ``runs`` (1 unless the epoch had to run again), and Spark's own of the
  operator.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from pyspark.sql.streaming.listener import StreamingQueryProgress

from binshift.engine.timings import EpochTimings, StateFigures
from binshift.model import Epoch

Observed = tuple[Epoch, Mapping[str, Mapping[str, object]]]
"""An epoch, and the values by metric and column that the program observes in it behind a stateful operator."""


@dataclass(frozen=True)
class Reports:
    """What a query adds to the reports of its newest epochs.

    Attributes:
        timings: of the epochs, ascending.
        observed: in the epochs, ascending; of an epoch that ran again, the last one counts.
    """

    timings: deque[EpochTimings]
    observed: deque[Observed] = field(default_factory=deque)


_published: WeakValueDictionary[str, Reports] = WeakValueDictionary()
"""By query: a listener gets nothing but the id from Spark."""


def filled(progress: StreamingQueryProgress, reports: Reports) -> StreamingQueryProgress:
    """``progress`` with its ``stateOperators``, and with all that is observed, of the same type.

    A report of a trigger that ran nothing has the stored values, and 0 for all work: as in Spark. The report of an epoch that is
    not among the newest is returned unchanged.
    """
    ran = "addBatch" in progress.durationMs
    epoch = progress.batchId if ran else progress.batchId - 1
    found = next((each for each in reversed(tuple(reports.timings)) if each.epoch == epoch), None)
    if found is None:
        return progress
    document = json.loads(progress.json)
    document["stateOperators"] = [_entry(each, found.runs, ran) for each in found.operators]
    if ran:
        observed = dict(tuple(reports.observed)).get(Epoch(epoch), {})
        document["observedMetrics"] = {**document.get("observedMetrics", {}), **observed}
    return StreamingQueryProgress.fromJson(document)


def _entry(done: StateFigures, runs: int, ran: bool) -> Mapping[str, Any]:
    """The entry in the form and order of the JSON of Spark."""
    return {
        "operatorName": done.operator.rpartition(".")[2],
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
            **{name: count * ran for name, count in done.counts.items()},
        },
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def publish(query_id: str, reports: Reports) -> None:
    """Let `filled_by_id` find the reports of a starting query, for as long as its owner holds them."""
    _published[query_id] = reports


def filled_by_id(progress: StreamingQueryProgress) -> StreamingQueryProgress:
    """`filled` for the query that ``progress`` names; a report of a plain Spark query is returned unchanged."""
    reports = _published.get(str(progress.id))
    return progress if reports is None else filled(progress, reports)
