"""Where the time of an epoch went and what its operators did, as the epoch loop measured it and progress reports show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from binshift.engine.epoch_plan import EpochPlan
from binshift.model import Epoch
from binshift.worker.messages import Summary

TIMINGS_KEPT = 10_000
"""Epochs of which they are kept."""

DELTA_SECONDS = ("delta", "commit")
"""Parts of a task's time that make what it did durable."""


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
        counts: the operator's further figures, by the names of Spark's custom metrics.
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
    counts: Mapping[str, int]
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
        counts={name: sum(each.counts.get(name, 0) for each in parts) for name in parts[0].counts},
        process_seconds=sum(each.seconds.get("process", 0.0) for each in parts),
        commit_seconds=sum(each.seconds.get(part, 0.0) for each in parts for part in DELTA_SECONDS),
        delta_bytes=sum(each.delta.bytes for each in parts if each.delta is not None),
        brought_up=sum(each.brought_up for each in parts),
        workers=len(parts),
        bins=plan.route.bins,
        route_version=plan.route.version,
    )


@dataclass(frozen=True)
class EpochTimings:
    """Where one epoch's time went, in seconds by part; the newest are kept for progress reports.

    Attributes:
        committed_at: when its record existed, in seconds since 1970.
        runs: how many it took.
        records_in: records behind ``rows_in``, before the JVM's own aggregation; late ones included.
        weighed_in: the same as bins count them: as ``rows_in`` where the JVM aggregates before the exchange.
        moved: bins that changed owner with it.
        operators: what each stateful operator did.
        moving: whether a migration was under way when it began, or when it was recorded.
    """

    epoch: Epoch
    committed_at: float
    runs: int
    seconds: Mapping[str, float]
    rows_in: int
    rows_out: int
    moved: int
    operators: tuple[StateFigures, ...] = ()
    moving: bool = False
    records_in: int = 0
    weighed_in: int = 0


def timings_of(
    plan: EpochPlan, run: int, summaries: Sequence[Summary], seconds: Mapping[str, float], committed_at: float
) -> EpochTimings:
    """The timings of an epoch whose record exists since now.

    Args:
        plan: of the epoch.
        run: the one that counted.
        summaries: of its tasks.
        seconds: measured on the driver, by part.
        committed_at: now, in seconds since 1970.
    """
    parts = dict(seconds)
    for summary in summaries:
        for part, value in summary.seconds.items():
            parts[f"task_{part}"] = max(parts.get(f"task_{part}", 0.0), value)
    rows_in, rows_out = sum(s.rows_in for s in summaries), sum(s.rows_out for s in summaries)
    done = (rows_in, rows_out, len(plan.moves), figures(plan, summaries))
    records, weighed = sum(s.records_in for s in summaries), sum(s.weighed_in for s in summaries)
    return EpochTimings(plan.epoch, committed_at, run + 1, parts, *done, records_in=records, weighed_in=weighed)
