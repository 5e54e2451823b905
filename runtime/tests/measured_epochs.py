"""Made-up measured epochs, and a query with all values known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binshift.engine.timings import EpochTimings, StateFigures
from binshift.metrics import Observed
from binshift.migration import Phase
from binshift.model import Epoch, Worker

EVERYTHING = Observed(
    epoch=Epoch(41),
    route_version=3,
    executors=2,
    background_failures={Worker(0): 3, Worker(1): 0},
    bins={Worker(0): 10, Worker(1): 6},
    keys={Worker(0): 100.0},
    bytes={Worker(0): 4096.0},
    watermark_lag_seconds=1.5,
    state={"Loading": False, "Running": True},
    target_workers=3,
    latency_target_seconds=0.5,
    arriving_rows_per_second=10.0,
    backlog_rows=5,
    bound_rows=100,
    capacity_rows_per_second=50.0,
    recommended_workers=3,
    hottest_bin_share=0.5,
    hot_key_share={"totals": 0.6},
    epoch_running_seconds=0.25,
    phase=Phase.FLIPPING,
    migration_moved_bins=4,
    migration_planned_bins=8,
    migration_left_seconds=12.5,
    copy_lag_epochs=1,
    copied_bytes=1000,
    standby_bins=16,
    standby_lag_epochs=2,
    runs_failed=2,
    log_files=12,
    log_bytes=9000,
    snapshot_age_epochs=7,
)


@dataclass(frozen=True)
class Done(StateFigures):
    """The work of an operator."""

    operator: str = "state"
    rows_stored: int = 50
    bytes_stored: int = 2000
    states_set: int = 0
    states_deleted: int = 0
    rows_late: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    process_seconds: float = 0.0
    commit_seconds: float = 0.0
    delta_bytes: int = 0
    brought_up: int = 0
    workers: int = 2
    bins: int = 16
    route_version: int = 3


@dataclass(frozen=True)
class Measured(EpochTimings):
    """An epoch; ``behind`` is the number of records if it differs from ``rows_in``."""

    epoch: Epoch
    committed_at: float = 100.0
    runs: int = 1
    seconds: Mapping[str, float] = field(default_factory=lambda: {"total": 0.35})
    rows_in: int = 10
    rows_out: int = 4
    moved: int = 0
    operators: tuple[StateFigures, ...] = (Done(),)
    moving: bool = False
    records_in: int = field(default=0, init=False)
    weighed_in: int = field(default=0, init=False)
    behind: int | None = None

    def __post_init__(self) -> None:
        for each in ("records_in", "weighed_in"):
            object.__setattr__(self, each, self.rows_in if self.behind is None else self.behind)
