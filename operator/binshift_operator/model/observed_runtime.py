"""What a driver reports through its control API: the program, its query, the target and the load.

Only `binshift_operator.driver_answers` creates it. What is unknown is None, never an invented value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from binshift.load import Load
from binshift_operator.model.driver_settings import DriverSettings
from binshift_operator.model.status import HotKey, MigrationStatus


class RunState(StrEnum):
    """The state of the program, as reported by the control API."""

    STANDBY = "Standby"
    """It waits before its first query, until its driver is activated."""
    LOADING = "Loading"
    RUNNING = "Running"
    STOPPED = "Stopped"
    FINISHED = "Finished"
    FAILED = "Failed"
    FENCED = "Fenced"


@dataclass(frozen=True, slots=True)
class ObservedTarget:
    """The runtime's desired target."""

    owner: str
    generation: int
    workers: frozenset[int]
    settled: bool


@dataclass(frozen=True, slots=True)
class RunningEpoch:
    """The running epoch.

    Attributes:
        seconds: since its first run began, by the driver's clock; ``runs``: how many have begun.
        part: its stage, one of `binshift.engine.epoch_progress`; empty if it is not reported.
        last_error: of its newest failed run; empty if none has failed.
    """

    epoch: int
    seconds: float
    runs: int = 1
    part: str = ""
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class ObservedRuntime:
    """The state of the runtime, as reported by the control API; times in seconds since 1970.

    Attributes:
        active: False: of a standby, whose program starts no query; None: not reported, as by a driver of an older version.
        epoch: newest recorded; -1 before the first.
        holding: workers that own bins; ``registered``: workers with a live executor.
        failures: consecutive failures of the program; 0 while it only starts or waits for its executors.
        stopping: whether its query is about to stop on request.
        running_epoch: None between epochs, as without input, and if it is not reported.
        latency_p99: record latency in seconds; ``version``: of binshift in the driver, empty if it is not reported; ``load``: likewise None.
        settings: of the driver that change while it runs; None if they are not reported.
        migration: the current or else the newest one; ``migration_workers``: that are to share the bins, None if single bins were moved.
    """

    state: RunState
    reason: str = ""
    failures: int = 0
    stopping: bool = False
    epoch: int = -1
    committed_at: float | None = None
    running_epoch: RunningEpoch | None = None
    route_version: int | None = None
    holding: frozenset[int] = frozenset()
    registered: frozenset[int] = frozenset()
    target: ObservedTarget | None = None
    latency_p99: float | None = None
    migration: MigrationStatus | None = None
    migration_workers: frozenset[int] | None = None
    version: str = ""
    settings: DriverSettings | None = None
    load: Load | None = None
    hot_keys: tuple[HotKey, ...] = ()
    active: bool | None = None
