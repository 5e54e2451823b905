"""Progress reports: Spark's own, with `stateOperators` filled in from the tasks' reports."""

from __future__ import annotations

import gc
import json
from collections import deque
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    StateOperatorProgress,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from binshift.engine.epoch_plan import BatchOffsets, EpochPlan, RunTasks
from binshift.engine.timings import EpochTimings, figures
from binshift.log.records.commits import FileRef
from binshift.model import Epoch, Fence, Moves, Stamp, Term, Worker
from binshift.routing import Route
from binshift.spark.frontend.listening import state_listener
from binshift.spark.session.progress import Reports, filled, publish
from binshift.worker.messages import Summary

QUERY = "a5b6ba4b-2a09-4bbd-a5f5-8a3ea4f1a4f3"
SPARKS_NAMES = [
    *("operatorName", "numRowsTotal", "numRowsUpdated", "allUpdatesTimeMs", "numRowsRemoved", "allRemovalsTimeMs"),
    *("commitTimeMs", "memoryUsedBytes", "numRowsDroppedByWatermark", "numShufflePartitions"),
    *("numStateStoreInstances", "customMetrics"),
]


def report(batch: int, *, ran: bool = True) -> StreamingQueryProgress:
    """A report as Spark makes it for a query without operators."""
    document = {
        "id": QUERY,
        "runId": "3d1e1d2c-5b5f-4a4b-bd8e-0f5c5d3d7c11",
        "name": "clicks",
        "timestamp": "2026-11-21T12:00:00.000Z",
        "batchId": batch,
        "batchDuration": 200,
        "numInputRows": 10,
        "inputRowsPerSecond": 5.0,
        "processedRowsPerSecond": 50.0,
        "durationMs": {"addBatch": 150, "triggerExecution": 200} if ran else {"triggerExecution": 2},
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    }
    return StreamingQueryProgress.fromJson(document)


def summary(worker: int, *, operator: str = "state", delta_bytes: int = 0) -> Summary:
    """The report of a task of epoch 7."""
    delta = FileRef(f"d{worker}", delta_bytes, 3, 1, "", "0-3") if delta_bytes else None
    return Summary(
        fence=Fence(Term(1), Epoch(7), 0),
        operator=operator,
        worker=Worker(worker),
        stamp=Stamp(Epoch(7), f"1.7.0.{worker}"),
        delta=delta,
        rows_in=5,
        rows_out=4,
        seconds={"process": 0.1, "delta": 0.02, "commit": 0.003},
        brought_up=worker,
        states_set=3,
        states_deleted=1,
        rows_late=2,
        counts={"numDroppedDuplicateRows": 2 + worker},
        rows_stored=100,
        bytes_stored=4096,
    )


def no_tasks(plan: EpochPlan, run: int, bring_up: frozenset[Worker]) -> RunTasks:
    """The tasks of a plan that is never run."""
    return RunTasks((), frozenset(), frozenset())


def timings(*summaries: Summary, epoch: int = 7, runs: int = 1) -> EpochTimings:
    """The timings of an epoch with these tasks."""
    route = Route.initial(16, (Worker(0), Worker(1)))
    workers = (Worker(0), Worker(1))
    plan = EpochPlan(Epoch(epoch), route, route, workers, Moves([], [], []), BatchOffsets(0, 0, "hash"), 0, no_tasks)
    return EpochTimings(Epoch(epoch), 0.0, runs, {}, 10, 8, 0, figures(plan, summaries))


def reports(*known: EpochTimings, **observed: int) -> Reports:
    """What a query adds for these epochs; one column of a metric for each name."""
    metrics = {name: {"value": value} for name, value in observed.items()}
    return Reports(deque(known), deque((each.epoch, metrics) for each in known if metrics))


TWO = timings(summary(0, delta_bytes=500), summary(1, delta_bytes=700))


def test_an_entry_has_sparks_names_and_sums_over_workers() -> None:
    """The report keeps its type and all of Spark's fields; text and attributes agree."""
    found = filled(report(7), reports(TWO))
    assert type(found) is StreamingQueryProgress
    [entry] = found.stateOperators
    assert type(entry) is StateOperatorProgress
    assert list(json.loads(found.json)["stateOperators"][0]) == SPARKS_NAMES
    assert (entry.operatorName, entry.numRowsTotal, entry.numRowsUpdated) == ("state", 200, 6)
    assert (entry.numRowsRemoved, entry.memoryUsedBytes) == (2, 8192)
    assert (entry.allUpdatesTimeMs, entry.commitTimeMs) == (200, 46)
    assert entry.numRowsDroppedByWatermark == 4
    assert (entry.numShufflePartitions, entry.numStateStoreInstances) == (2, 2)
    assert entry.customMetrics == {
        "bins": 16,
        "workers": 2,
        "routeVersion": 0,
        "deltaBytes": 1200,
        "binsBroughtUp": 1,
        "runs": 1,
        "numDroppedDuplicateRows": 5,
    }
    assert json.loads(found.prettyJson) == json.loads(found.json)
    before = report(7)
    assert {k: v for k, v in found.items() if k != "stateOperators"} == {
        k: v for k, v in before.items() if k != "stateOperators"
    }


def test_each_operator_has_an_entry_and_a_repeated_summary_counts_once() -> None:
    """Entries are ordered by name, in whatever order tasks report."""
    both = timings(summary(1), summary(0), summary(0), summary(0, operator="other"))
    found = filled(report(7), reports(both)).stateOperators
    assert [(each.operatorName, each.numRowsTotal, each.numStateStoreInstances) for each in found] == [
        ("other", 100, 1),
        ("state", 200, 2),
    ]


def test_a_trigger_that_ran_nothing_shows_what_is_stored() -> None:
    """Spark numbers such a report by the next batch: its values are those of the previous epoch."""
    [entry] = filled(report(8, ran=False), reports(TWO)).stateOperators
    assert (entry.numRowsTotal, entry.memoryUsedBytes, entry.numStateStoreInstances) == (200, 8192, 2)
    assert (entry.numRowsUpdated, entry.numRowsRemoved, entry.commitTimeMs, entry.allUpdatesTimeMs) == (0, 0, 0, 0)
    assert entry.customMetrics["bins"] == 16
    assert entry.customMetrics["deltaBytes"] == 0


def test_what_is_observed_behind_an_operator_joins_what_spark_observes() -> None:
    """A trigger that ran nothing observed nothing."""
    document = json.loads(report(7).json) | {"observedMetrics": {"before": {"rows": 3}}}
    found = filled(StreamingQueryProgress.fromJson(document), reports(TWO, behind=4))
    assert found.observedMetrics == {"before": Row(rows=3), "behind": Row(value=4)}
    assert filled(report(8, ran=False), reports(TWO, behind=4)).observedMetrics == {}


@pytest.mark.parametrize("known", [[], [timings(summary(0), epoch=6)]], ids=["none", "another"])
def test_an_unknown_epoch_stays_as_in_spark(known: list[EpochTimings]) -> None:
    """Nothing is added for an epoch that this driver has not timed."""
    assert filled(report(7), reports(*known)).stateOperators == []


class RecordingListener(StreamingQueryListener):
    """A user's listener."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        self.events.append(event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        self.events.append(event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        self.events.append(event)


def test_a_wrapped_listener_sees_the_state_of_binshifts_queries_only() -> None:
    """The report is filled while the query is alive; reports of other queries are unchanged."""
    listener = RecordingListener()
    wrapped = state_listener(listener)
    lived = reports(TWO)
    publish(QUERY, lived)
    wrapped.onQueryProgress(QueryProgressEvent(report(7)))
    assert [each.numRowsTotal for each in listener.events[-1].progress.stateOperators] == [200]
    del lived
    gc.collect()
    wrapped.onQueryProgress(QueryProgressEvent(report(7)))
    assert listener.events[-1].progress.stateOperators == []


def test_a_wrapped_listener_hears_everything_else_as_it_is() -> None:
    """This includes methods that a listener may omit."""
    listener = RecordingListener()
    wrapped = state_listener(listener)
    events: list[Any] = [object(), object()]
    wrapped.onQueryStarted(events[0])
    wrapped.onQueryIdle(object())  # type: ignore[arg-type]
    wrapped.onQueryTerminated(events[1])
    assert listener.events == events
