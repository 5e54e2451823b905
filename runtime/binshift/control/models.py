"""What the control API answers, but its errors (`problems`). What it is sent is in `requests`.

Answers are camelCase. They carry null where something is not known, never a made-up 0. Durations are in seconds and points in
time RFC 3339, in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from binshift import __version__
from binshift.control.answer import Answer
from binshift.control.load_figures import HotKey, Load

OWNER_CHARACTERS_MAX: Final = 253
"""As long as a Kubernetes name; a UID is shorter."""
REASON_CHARACTERS_MAX: Final = 2000
"""Longest reason in an answer; the driver's log has the rest."""


StrategyName = Literal["AllAtOnce", "Fluid", "Batched", "Optimized"]
PhaseName = Literal["planned", "warming", "copying", "flipping", "settled", "cancelled", "failed"]
PartName = Literal["plan", "executors", "job", "record"]


def moment(seconds: float | None) -> datetime | None:
    """A point in time from seconds since 1970; None for none, and for one no calendar has (event times are users' data).

    >>> moment(0.5).isoformat(), moment(None), moment(1e15)
    ('1970-01-01T00:00:00.500000+00:00', None, None)
    """
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


class State(StrEnum):
    """The state of a dataflow, for clients that wait for it."""

    STANDBY = "Standby"
    LOADING = "Loading"
    RUNNING = "Running"
    STOPPED = "Stopped"
    FINISHED = "Finished"
    FAILED = "Failed"
    FENCED = "Fenced"

    def flags(self) -> Mapping[str, bool]:
        """Every state by its name, and whether it is this one."""
        return {state.value: state is self for state in State}


class Rates(Answer):
    """How fast it goes, over the newest epochs of at most ``windowSeconds``."""

    window_seconds: float
    epochs_per_second: float
    input_rows_per_second: float = Field(description="Rows that reach the state, after the JVM's own aggregation.")
    source_rows_per_second: float = Field(description="Records behind those rows, before that aggregation.")
    weighed_rows_per_second: float = Field(
        default=0.0, description="Records as bins count them: as rows where the JVM aggregates before the exchange."
    )
    output_rows_per_second: float


class Latency(Answer):
    """Record latency, from arrival to the commit of the record's epoch, over some epochs."""

    epochs: int
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    max_seconds: float


class Target(Answer):
    """The desired target, and what of it is effective now."""

    owner: str
    generation: int
    workers: list[int]
    strategy: str
    batch_size: int
    pre_copy: bool
    latency_target_seconds: float | None
    effective_workers: list[int] = Field(description="The desired ones except draining and lost ones.")
    settled: bool = Field(description="Whether the recorded route is as desired and nothing moves.")


class Migration(Answer):
    """One migration in numbers. Counts are null until it has a plan; bytes are 0 where sizes are unknown."""

    id: int
    phase: PhaseName
    reason: str = Field(description="Why it ended differently than requested, or without a move; else empty.")
    generation: int | None = Field(description="Of the target that required it; null if none did.")
    workers: list[int] | None = Field(description="The workers that share the bins; null where single bins were moved.")
    strategy: str
    batch_size: int
    pre_copy: bool
    steps_flipped: int | None = None
    steps_inflight: int | None = None
    steps_total: int | None = None
    bins_moved: int | None = None
    bins_copied: int | None = Field(default=None, description="Ready on their destination, not moved yet.")
    bins_total: int | None = None
    bytes_moved: int | None = None
    bytes_copied: int | None = None
    bytes_total: int | None = None
    seconds_left: float | None = None
    started_at: datetime | None = Field(default=None, description="Time of the request.")
    ended_at: datetime | None = Field(default=None, description="When it ended.")
    latency_before: Latency | None = None
    latency_during: Latency | None = None


class EpochUnderWay(Answer):
    """The epoch that runs now."""

    epoch: int
    runs: int = Field(description="How many runs of it have begun; all but the newest failed.")
    part: PartName = Field(
        description="Its route is planned, executors are awaited, its job runs, its record is written."
    )
    seconds: float = Field(description="Since its first run began.")
    trouble: str = Field(default="", description="Why its newest failed run failed; empty if none has.")


class LiveSettings(Answer):
    """Settings that can be changed while the query runs, as the Spark conf or the newest request has them."""

    max_epoch_seconds: float | None = Field(description="How long an epoch should take at most; null: no bound.")


class Dataflow(Answer):
    """A dataflow as a whole."""

    state: State
    reason: str = Field(default="", description="Why it failed or does not run yet.")
    version: str = Field(default=__version__, description="Of binshift in the driver.")
    failures: int = Field(default=0, description="How often in a row it has failed; 0 while it only starts or waits.")
    active: bool = Field(
        default=True,
        description="False: a standby, which runs the program up to its first query and waits for activation.",
    )
    stopping: bool = Field(default=False, description="Whether it stops after its running epoch.")
    name: str | None = None
    id: str | None = None
    run_id: str | None = None
    epoch: int = Field(default=-1, description="Newest recorded; -1 before the first.")
    committed_at: datetime | None = Field(default=None, description="When that was recorded, in this run.")
    under_way: EpochUnderWay | None = Field(
        default=None, description="Null between epochs, as while there is no input."
    )
    route_version: int | None = None
    bins: int | None = None
    workers: list[int] = Field(default=[], description="The owners of bins.")
    registered: list[int] = Field(default=[], description="The workers with an executor registered with Spark.")
    watermark: datetime | None = None
    watermark_lag_seconds: float | None = Field(default=None, description="From the watermark to the epoch's own time.")
    rates: Rates | None = None
    latency: Latency | None = None
    load: Load | None = Field(default=None, description="Null before it runs, and for several queries together.")
    hot_keys: list[HotKey] = Field(default=[], description="At most eight of each query, the largest share first.")
    settings: LiveSettings | None = Field(default=None, description="Null before it runs.")
    target: Target | None = None
    migration: Migration | None = Field(default=None, description="The one under way, else the newest.")


class WorkerLoad(Answer):
    """What a worker carries. Keys and bytes are estimates, from the newest snapshots of its bins."""

    worker: int
    registered: bool
    effective: bool = Field(description="Whether it may be given bins: desired, and neither draining nor away.")
    bins: int
    keys: int | None
    bytes: int | None
    copies: int | None = Field(description="Bins of others it holds a copy of.")
    background_failures: int = Field(default=0, description="Its background rounds that failed in a row.")
    background_error: str = Field(default="", description="Why the newest of them failed.")


class Workers(Answer):
    """All workers, ascending."""

    workers: list[WorkerLoad]


class Copy(Answer):
    """A second instance of a bin, not owning it."""

    worker: int
    epoch: int = Field(description="The state it is in.")


class BinLoad(Answer):
    """One bin. Rows and bytes are estimates, from its newest snapshot."""

    bin: int
    worker: int
    rows: int | None
    bytes: int | None
    rows_per_second: float | None = Field(
        description="Estimate of the records that reach it, as rows where the JVM aggregates before the exchange: by its share in one epoch of 16, "
        "and the rate of the last minute; null while fewer than 10,000 were counted since the driver's start."
    )
    copies: list[Copy]


class Bins(Answer):
    """Some bins, ascending, as of one epoch; ``next`` is where the following page begins, null after the last."""

    epoch: int
    route_version: int | None
    bins: list[BinLoad]
    next: int | None


class Migrations(Answer):
    """The newest migrations of this run, newest last."""

    migrations: list[Migration]


class Accepted(Answer):
    """What a write led to; the migration is null if there was nothing to do."""

    migration: Migration | None


class Health(Answer):
    """Whether something is well, and why not."""

    status: Literal["ok", "unavailable"]
    reason: str = ""
