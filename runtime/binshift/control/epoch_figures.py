"""The newest epochs one by one: latency, rows, and where the time went, as parts that add up to the whole. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic import Field

from binshift.control.answer import Answer
from binshift.control.models import moment
from binshift.engine.timings import EpochTimings
from binshift.metrics.measured import arrivals
from binshift.model import Epoch

IN_JOB: Final = ("bring_up", "process", "delta", "commit")
"""Parts of a task's time; they are within the epoch's job."""


class EpochParts(Answer):
    """Where an epoch's time went, in seconds; the parts add up to its total."""

    plan: float = Field(description="The route, and Spark's plan of the job.")
    spark: float = Field(description="The job without the state's parts below: source, exchange, sink, scheduling.")
    bring_up: float = Field(description="Stores are opened, and bins of a flip are brought up; on the slowest worker.")
    state: float = Field(description="The operators run; on the slowest worker.")
    delta: float = Field(description="Deltas are written to the log; on the slowest worker.")
    store: float = Field(
        description="The wait for local stores, until nothing can prevent their commit; on the slowest worker."
    )
    record: float = Field(description="The epoch's record is written.")
    other: float = Field(description="Failed runs, and the wait for executors.")


class EpochFigures(Answer):
    """One recorded epoch."""

    epoch: int
    committed_at: datetime | None
    runs: int = Field(description="How many runs it took.")
    total_seconds: float
    latency_min_seconds: float | None = Field(description="Of its newest record; null if it had none.")
    latency_max_seconds: float | None = Field(description="Of its oldest record; null if it had none.")
    source_rows: int
    input_rows: int
    output_rows: int
    bins_moved: int
    moving: bool = Field(description="Whether a migration was under way.")
    parts: EpochParts


class Epochs(Answer):
    """Some of the newest epochs of this run, ascending."""

    epochs: list[EpochFigures]


def epochs_of(epochs: Sequence[EpochTimings], after: int, limit: int) -> Epochs:
    """The newest ``limit`` of the epochs after ``after``; ``epochs`` ascend."""
    first = max(bisect_right(epochs, after, key=_number), len(epochs) - limit)
    return Epochs(epochs=[_figures(epochs[at - 1] if at else None, epochs[at]) for at in range(first, len(epochs))])


def parts_of(seconds: Mapping[str, float]) -> EpochParts:
    """The parts of an epoch, from the measured seconds of the driver and of each part's slowest task.

    Slowest tasks of different parts can be different ones, so that their sum exceeds the job: then each is reduced.

    >>> parts_of({"plan": 0.25, "job": 1.0, "task_process": 0.5, "record": 0.5, "total": 2.0}).other
    0.25
    """
    plan, job, record = (max(0.0, seconds.get(name, 0.0)) for name in ("plan", "job", "record"))
    slowest = [max(0.0, seconds.get(f"task_{name}", 0.0)) for name in IN_JOB]
    share = min(1.0, job / sum(slowest)) if any(slowest) else 1.0
    bring_up, state, delta, store = (each * share for each in slowest)
    return EpochParts(
        plan=plan,
        spark=max(0.0, job - (bring_up + state + delta + store)),
        bring_up=bring_up,
        state=state,
        delta=delta,
        store=store,
        record=record,
        other=max(0.0, seconds.get("total", 0.0) - (plan + job + record)),
    )


def _figures(before: EpochTimings | None, epoch: EpochTimings) -> EpochFigures:
    least, greatest = arrivals(before, epoch) if epoch.records_in else (None, None)
    return EpochFigures(
        epoch=epoch.epoch,
        committed_at=moment(epoch.committed_at),
        runs=epoch.runs,
        total_seconds=epoch.seconds.get("total", 0.0),
        latency_min_seconds=least,
        latency_max_seconds=greatest,
        source_rows=epoch.records_in,
        input_rows=epoch.rows_in,
        output_rows=epoch.rows_out,
        bins_moved=epoch.moved,
        moving=epoch.moving,
        parts=parts_of(epoch.seconds),
    )


def _number(epoch: EpochTimings) -> Epoch:
    return epoch.epoch
