"""The status of a dataflow as frozen values; `binshift_operator.status_codec` writes and reads its JSON.

It informs users, and keeps what must outlive the operator's process: since when something is awaited, at which epoch a target settled,
which slots held bins, which generation timed out. Losing it costs time, never correctness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from binshift_operator.model.autoscaling import AutoscalingStatus
from binshift_operator.model.driver_status import DriverStatus
from binshift_operator.model.reasons import DegradedReason, ProgressingReason, SettledReason
from binshift_operator.model.snapshot_spec import RestoreFrom

HISTORY_MAX: Final = 5
REASON_CHARACTERS_MAX: Final = 512
HOT_KEYS_MAX: Final = 8
Problem: TypeAlias = tuple[DegradedReason, str]
"""A problem that a user must act upon: its reason, and its message."""


class ConditionType(StrEnum):
    """The types of conditions."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    MIGRATING = "Migrating"
    DEGRADED = "Degraded"
    UPDATE_PENDING = "UpdatePending"
    SCALING_ACTIVE = "ScalingActive"
    SCALING_LIMITED = "ScalingLimited"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition.

    Attributes:
        since: when ``status`` last changed, in seconds since 1970.
        status: True, False, or None where it is not known.
    """

    type: ConditionType
    status: bool | None
    reason: str
    message: str
    generation: int
    since: float


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """A condition without its type, generation and time."""

    status: bool | None
    reason: str
    message: str


class Phase(StrEnum):
    """A summary for users; nothing is decided by it."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESCALING = "Rescaling"
    RESTARTING = "Restarting"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    FINISHED = "Finished"
    FAILED = "Failed"


ENDED: Final = frozenset({"settled", "cancelled", "failed"})
"""Phases of a migration that has ended."""


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """One migration in numbers; None where not known. ``generation`` is the target's, see `observed.REVISIONS`."""

    id: int
    phase: str
    generation: int = 0
    strategy: str = ""
    bins_moved: int | None = None
    bins_total: int | None = None
    bytes_moved: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    latency_before: float | None = None
    latency_during: float | None = None
    reason: str = ""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.phase in ENDED

    @property
    def progress(self) -> str:
        """How many of its bins have moved; empty if unknown."""
        return "" if self.bins_total is None else f"{self.bins_moved or 0} of {self.bins_total} bins moved"


@dataclass(frozen=True, slots=True)
class Awaiting:
    """What is awaited, since when (seconds since 1970), for which generation."""

    reason: str
    since: float


@dataclass(frozen=True, slots=True)
class SettledTarget:
    """The target last seen settled, and the epoch at which that was seen first."""

    generation: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Moving:
    """Since when bins move towards a target, in however many migrations and runs of the driver (seconds since 1970)."""

    generation: int
    since: float


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """A roll of the executors: how many of the spec's are registered, of the spec's template and on a node that stays; of how many.

    ``leaving_nodes``: the first of the nodes that are about to go and have executors, by name.
    """

    updated: int
    total: int
    leaving_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key with a large part of its operator's records, ``percent``. The text is users' data."""

    operator: str
    key: str
    percent: float
    bin: int
    worker: int

    @property
    def name(self) -> tuple[str, str]:
        """What identifies it."""
        return self.operator, self.key

    @property
    def executors_max(self) -> int:
        """More executors do not help, unless tasks aggregate before the exchange: with so many, one can have this key alone."""
        return math.ceil(100 / self.percent - 1e-9)


@dataclass(frozen=True, slots=True)
class EpochStats:
    """What changes with every epoch: the newest one, when it was committed (seconds since 1970), and the record latency (seconds)."""

    epoch: int | None = None
    committed_at: float | None = None
    latency_p99: float | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The whole status; see the CRD for each field.

    ``finished_spec``: the restart hash of the spec whose program has ended by itself; a status of an earlier operator has only the
    generation. ``restored``: the snapshot that the spec names, with its location. ``waiting``: since when each slot of the spec has not been used, in seconds since 1970; see `decide.targets`.
    """

    observed_generation: int = 0
    settled_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    phase: Phase = Phase.PENDING
    epoch_stats: EpochStats = field(default_factory=EpochStats)
    route_version: int | None = None
    awaiting: Awaiting | None = None
    settled_target: SettledTarget | None = None
    holding_slots: int = 0
    timed_out_generation: int = 0
    migration: MigrationStatus | None = None
    history: tuple[MigrationStatus, ...] = ()
    conditions: tuple[Condition, ...] = field(default_factory=tuple)
    finished_generation: int = 0
    waiting: Mapping[int, float] = field(default_factory=dict)
    finished_spec: str = ""
    moving: Moving | None = None
    version: str = ""
    rollout: RolloutStatus | None = None
    autoscaling: AutoscalingStatus | None = None
    hot_keys: tuple[HotKey, ...] = ()
    restored: RestoreFrom | None = None
    driver: DriverStatus | None = None

    def has_finished(self, generation: int, spec: str) -> bool:
        """Whether the program of this spec, by its restart hash, has ended by itself; live fields do not run it again."""
        return self.finished_spec == spec if self.finished_spec else self.finished_generation == generation

    def condition(self, kind: ConditionType) -> Condition | None:
        """A condition; None before it was first written."""
        return next((each for each in self.conditions if each.type is kind), None)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a decision reports to the status.

    Attributes:
        reason: what is being waited for, or why nothing is.
        message: the same as a sentence.
        realised: whether the spec's generation is in place in full.
        settled_target: see `SettledTarget`; None: unknown at the moment.
        timed_out: whether the migration of this generation has timed out.
        degraded: the problem that this decision found, if any.
        finished: whether the program has just ended by itself, which the status must record for this spec.
        outdated: whether pods wait to be replaced.
        waiting, moving, rollout: see `Status`, `Moving` and `RolloutStatus`.
    """

    reason: ProgressingReason | SettledReason
    message: str = ""
    realised: bool = False
    settled_target: SettledTarget | None = None
    timed_out: bool = False
    degraded: Problem | None = None
    finished: bool = False
    outdated: bool = False
    waiting: Mapping[int, float] = field(default_factory=dict)
    moving: Moving | None = None
    rollout: RolloutStatus | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being waited for."""
        return isinstance(self.reason, SettledReason)
