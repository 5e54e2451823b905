"""What the metrics are made from, next to measured epochs: what is true of a query now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binshift.engine.timings import EpochTimings
from binshift.migration import Phase
from binshift.model import BEFORE_FIRST, Epoch, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is true of a query now; None (or no entry) where it is not known. `DECLARED` has what each means, under its metric.

    Attributes:
        keys: by worker, in the newest snapshots: an estimate.
        bytes: by worker, of those on the log: an estimate.
        state: by name what the program may be doing, and whether it is.
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
    arriving_rows_per_second: float | None = None
    backlog_rows: int | None = None
    bound_rows: int | None = None
    capacity_rows_per_second: float | None = None
    recommended_workers: int | None = None
    hottest_bin_share: float | None = None
    hot_key_share: Mapping[str, float] = field(default_factory=dict)
    epoch_running_seconds: float | None = None
    phase: Phase | None = None
    migration_moved_bins: int | None = None
    migration_planned_bins: int | None = None
    migration_left_seconds: float | None = None
    copy_lag_epochs: int | None = None
    copied_bytes: int | None = None
    standby_bins: int | None = None
    standby_lag_epochs: int | None = None
    runs_failed: int | None = None
    log_files: int | None = None
    log_bytes: int | None = None
    snapshot_age_epochs: int | None = None


def arrivals(before: EpochTimings | None, epoch: EpochTimings) -> tuple[float, float]:
    """The least and the greatest latency, in seconds, of an epoch's records, from their arrival to the commit.

    While an epoch runs, the records of the next one arrive at an even rate: the newest waits for its own epoch only, the oldest
    for the previous one as well. A backlog at the source is not included; the watermark's lag shows it.
    """
    own = epoch.seconds.get("total", 0.0)
    return own, own + (before.seconds.get("total", 0.0) if before is not None else 0.0)
