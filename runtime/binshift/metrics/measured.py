"""The inputs of the metrics: measured epochs, and the current state of a query.

The types are protocols and plain values because the packages that measure (`binshift.spark`, `binshift.control`) are layers
above this one: they may import it, but it must not import them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from binshift.migration import Phase
from binshift.model import BEFORE_FIRST, Epoch, Worker


class OperatorMeasured(Protocol):
    """What one stateful operator did in an epoch, over all workers."""

    @property
    def rows_stored(self) -> int:
        """Rows in the stores afterwards, including copies."""

    @property
    def bytes_stored(self) -> int:
        """The size of the stores in bytes."""

    @property
    def rows_late(self) -> int:
        """Rows dropped because of the watermark."""

    @property
    def brought_up(self) -> int:
        """Bins that had to be loaded inside the epoch."""


class EpochMeasured(Protocol):
    """The measurements of a recorded epoch; `binshift.engine.timings.EpochTimings` is an implementation."""

    @property
    def epoch(self) -> Epoch:
        """The epoch's number."""

    @property
    def committed_at(self) -> float:
        """When its record was created, in seconds since 1970."""

    @property
    def runs(self) -> int:
        """How many runs it took."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds by part; ``total`` is the whole epoch."""

    @property
    def rows_in(self) -> int:
        """Rows that reached the stateful operators."""

    @property
    def records_in(self) -> int:
        """Records in those rows, before aggregation in the JVM, including late ones."""

    @property
    def rows_out(self) -> int:
        """Rows that they emitted."""

    @property
    def moved(self) -> int:
        """Bins that changed owner in it."""

    @property
    def moving(self) -> bool:
        """Whether a migration was running when it began, or when it was recorded."""

    @property
    def operators(self) -> Sequence[OperatorMeasured]:
        """What each stateful operator did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The current state of a query; None (or no entry) where it is unknown.

    Attributes:
        epoch: the newest recorded one; -1 before the first.
        route_version: of that epoch's route.
        executors: workers that are registered with Spark.
        background_failures: consecutive failed rounds of background work, by registered worker.
        bins: owned bins, by worker.
        keys: keys in the newest snapshots, by worker: an estimate.
        bytes: size of those snapshots in the log, by worker: an estimate.
        watermark_lag_seconds: from the watermark to the newest epoch's own time.
        state: every state that the program can have, and whether it has it.
        target_workers: workers of the target.
        latency_target_seconds: the record latency that paces moves.
        epoch_running_seconds: age of the running epoch; 0 between epochs.
        phase: of the newest migration; None if there was none.
        migration_moved_bins: of the newest migration.
        migration_planned_bins: of the newest migration.
        migration_left_seconds: estimated remaining time of the newest migration.
        copy_lag_epochs: how far the oldest needed copy is behind.
        copied_bytes: total of this driver.
        runs_failed: failed runs of epochs of this driver.
        log_files: data files referenced by the log's records.
        log_bytes: their size.
        snapshot_age_epochs: since the oldest of the bins' newest snapshots.
    """

    epoch: Epoch = BEFORE_FIRST
    route_version: int | None = None
    executors: int | None = None
    background_failures: Mapping[Worker, int] = field(default_factory=dict)
    bins: Mapping[Worker, int] = field(default_factory=dict)
    keys: Mapping[Worker, float] = field(default_factory=dict)
    bytes: Mapping[Worker, float] = field(default_factory=dict)
    watermark_lag_seconds: float | None = None
    state: Mapping[str, bool] = field(default_factory=dict)
    target_workers: int | None = None
    latency_target_seconds: float | None = None
    epoch_running_seconds: float | None = None
    phase: Phase | None = None
    migration_moved_bins: int | None = None
    migration_planned_bins: int | None = None
    migration_left_seconds: float | None = None
    copy_lag_epochs: int | None = None
    copied_bytes: int | None = None
    runs_failed: int | None = None
    log_files: int | None = None
    log_bytes: int | None = None
    snapshot_age_epochs: int | None = None


def arrivals(before: EpochMeasured | None, epoch: EpochMeasured) -> tuple[float, float]:
    """The least and the greatest latency, in seconds, of an epoch's records, from their arrival to the commit.

    While an epoch runs, the records of the next one arrive at an even rate: the newest waits for its own epoch only, the oldest
    for the previous one as well. A backlog at the source is not included; the watermark's lag shows it.
    """
    own = epoch.seconds.get("total", 0.0)
    return own, own + (before.seconds.get("total", 0.0) if before is not None else 0.0)
