"""Where the time of an epoch went, as the runner measured it and progress reports tell it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binshift.engine.epochplan import EpochPlan
from binshift.model import Epoch
from binshift.protocol.spec import Summary
from binshift.spark.progress import StateFigures, figures

TIMINGS_KEPT = 10_000
"""Epochs of which they are kept."""


@dataclass(frozen=True)
class EpochTimings:
    """Where one epoch's time went, in seconds by part; the newest are kept for progress reports.

    Attributes:
        committed_at: when its record existed, in seconds since 1970.
        runs: how many it took.
        records_in: records behind ``rows_in``, before the JVM's own aggregation; late ones included.
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


def timings_of(
    plan: EpochPlan,
    run: int,
    summaries: Sequence[Summary],
    seconds: Mapping[str, float],
    record: float,
    started: float,
) -> EpochTimings:
    """The timings of an epoch whose record exists since now.

    Args:
        plan: of the epoch.
        run: the one that counted.
        summaries: of its tasks.
        seconds: measured so far, by part.
        record: when its record was begun, by the performance counter.
        started: when the epoch was.
    """
    now = time.perf_counter()
    parts = dict(seconds) | {"record": now - record, "total": now - started}
    for summary in summaries:
        for part, value in summary.seconds.items():
            parts[f"task_{part}"] = max(parts.get(f"task_{part}", 0.0), value)
    rows_in, rows_out = sum(s.rows_in for s in summaries), sum(s.rows_out for s in summaries)
    operators, records_in = figures(plan, summaries), sum(s.records_in for s in summaries)
    done = (rows_in, rows_out, len(plan.moves), operators)
    return EpochTimings(plan.epoch, time.time(), run + 1, parts, *done, records_in=records_in)
