"""The metrics that are read from what is true now: a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from binshift.metrics.measured import Observed
from binshift.migration import Phase
from binshift.model import Worker


@dataclass(frozen=True, slots=True)
class Declared:
    """A metric that is read from an `Observed`.

    Attributes:
        name: without `PREFIX`; a counter gets the suffix ``_total`` in the exposition.
        help: one sentence.
        read: its value or, if ``label`` is set, its values by label.
        label: the one label, if any.
        counts: whether it is a counter; else a gauge.
    """

    name: str
    help: str
    read: Callable[[Observed], float | Mapping[str, float] | None]
    label: str | None = None
    counts: bool = False


def _by_worker(values: Mapping[Worker, float]) -> Mapping[str, float]:
    return {str(worker): value for worker, value in sorted(values.items())}


DECLARED: Final = (
    Declared("epoch", "Newest recorded epoch; -1 before the first.", lambda o: o.epoch),
    Declared("route_version", "Version of the newest epoch's route.", lambda o: o.route_version),
    Declared("state", "Program state (1 = current).", lambda o: {s: float(on) for s, on in o.state.items()}, "state"),
    Declared(
        "epoch_running_seconds",
        "Age of the running epoch; 0 between epochs.",
        lambda o: o.epoch_running_seconds,
    ),
    Declared("workers", "Workers registered with Spark.", lambda o: o.executors),
    Declared("target_workers", "Workers of the target.", lambda o: o.target_workers),
    Declared(
        "latency_target_seconds",
        "Record latency that moves stay under: the target, but not less than a quarter above calm.",
        lambda o: o.latency_target_seconds,
    ),
    Declared(
        "worker_background_failures",
        "Consecutive failed rounds of a worker's background work (copies, snapshots).",
        lambda o: _by_worker(o.background_failures),
        "worker",
    ),
    Declared("worker_bins", "Bins owned by the worker.", lambda o: _by_worker(o.bins), "worker"),
    Declared(
        "worker_keys", "Keys in the newest snapshots of the worker's bins.", lambda o: _by_worker(o.keys), "worker"
    ),
    Declared(
        "worker_bytes",
        "Size in the log of the newest snapshots of the worker's bins.",
        lambda o: _by_worker(o.bytes),
        "worker",
    ),
    Declared(
        "watermark_lag_seconds", "Time from the watermark to the newest epoch.", lambda o: o.watermark_lag_seconds
    ),
    Declared("arriving_rows_per_second", "Rows that arrive at the sources.", lambda o: o.arriving_rows_per_second),
    Declared(
        "backlog_rows", "Rows the sources have beyond those taken, where a source knows.", lambda o: o.backlog_rows
    ),
    Declared("recommended_workers", "Workers that the load needs, for an autoscaler.", lambda o: o.recommended_workers),
    Declared("epoch_bound_rows", "Rows that an epoch can take at most, if bounded.", lambda o: o.bound_rows),
    Declared(
        "capacity_rows_per_second",
        "Rows that the workers can take with no time to spare.",
        lambda o: o.capacity_rows_per_second,
    ),
    Declared(
        "hottest_bin_share",
        "Share of the rows behind the exchange that the bin with most of them gets.",
        lambda o: o.hottest_bin_share,
    ),
    Declared(
        "hot_key_share",
        "Share of the operator's records that its hottest key gets; 0 without a hot key.",
        lambda o: o.hot_key_share,
        "operator",
    ),
    Declared(
        "migration_phase",
        "Phase of the newest migration (1 = current).",
        lambda o: {phase.value: float(phase is o.phase) for phase in Phase},
        "phase",
    ),
    Declared("migration_moved_bins", "Bins moved by the newest migration.", lambda o: o.migration_moved_bins),
    Declared("migration_planned_bins", "Bins in the plan of the newest migration.", lambda o: o.migration_planned_bins),
    Declared(
        "migration_left_seconds",
        "Estimated remaining time of the newest migration.",
        lambda o: o.migration_left_seconds,
    ),
    Declared("copy_lag_epochs", "Epochs by which the oldest running copy is behind.", lambda o: o.copy_lag_epochs),
    Declared(
        "copied_bytes", "Bytes of state copied before flips, and to standbys.", lambda o: o.copied_bytes, counts=True
    ),
    Declared("standby_bins", "Bins with a complete standby copy; absent without standbys.", lambda o: o.standby_bins),
    Declared(
        "standby_lag_epochs", "Epochs by which the oldest standby copy is behind.", lambda o: o.standby_lag_epochs
    ),
    Declared(
        "recoveries",
        "Failed runs of epochs, which were repeated.",
        lambda o: o.runs_failed,
        counts=True,
    ),
    Declared("log_files", "Data files referenced by the log's records.", lambda o: o.log_files),
    Declared("log_bytes", "Size of the data files referenced by the log's records.", lambda o: o.log_bytes),
    Declared(
        "snapshot_age_epochs",
        "Age of the oldest among the newest snapshots of the bins.",
        lambda o: o.snapshot_age_epochs,
    ),
)
