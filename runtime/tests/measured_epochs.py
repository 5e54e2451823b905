"""Made-up measured epochs, and a query with all values known."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    epoch_running_seconds=0.25,
    phase=Phase.FLIPPING,
    migration_moved_bins=4,
    migration_planned_bins=8,
    migration_left_seconds=12.5,
    copy_lag_epochs=1,
    copied_bytes=1000,
    runs_failed=2,
    log_files=12,
    log_bytes=9000,
    snapshot_age_epochs=7,
)


@dataclass(frozen=True)
class Done:
    """The work of an operator."""

    rows_stored: int = 50
    bytes_stored: int = 2000
    rows_late: int = 0
    brought_up: int = 0


@dataclass(frozen=True)
class Measured:
    """An epoch."""

    epoch: Epoch
    committed_at: float = 100.0
    runs: int = 1
    seconds: dict[str, float] = field(default_factory=lambda: {"total": 0.35})
    rows_in: int = 10
    rows_out: int = 4
    moved: int = 0
    moving: bool = False
    operators: tuple[Done, ...] = (Done(),)
    behind: int | None = None

    @property
    def records_in(self) -> int:
        """As many as rows, unless set otherwise."""
        return self.rows_in if self.behind is None else self.behind
