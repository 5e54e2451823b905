"""What the status of a dataflow says, as frozen values; `binshift_operator.status_codec` writes and reads its JSON.

It is for people and for what must outlive the operator's process: since when something is awaited, at which epoch a
target settled, which slots held bins, which generation timed out. Losing it costs time, never correctness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

HISTORY_MAX: Final = 5
MESSAGE_CHARACTERS_MAX: Final = 1024
REASON_CHARACTERS_MAX: Final = 512
CUT: Final = "..."


class ConditionType(StrEnum):
    """The conditions there are."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    MIGRATING = "Migrating"
    DEGRADED = "Degraded"
    UPDATE_PENDING = "UpdatePending"


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
    """A summary for people; nothing is decided by it."""

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
"""Phases of a migration that is over."""


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
        """Whether it is over."""
        return self.phase in ENDED


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
class EpochStats:
    """What changes with every epoch: the newest one, when it was committed (seconds since 1970), and the record latency (seconds)."""

    epoch: int | None = None
    committed_at: float | None = None
    latency_p99: float | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The whole status; see the CRD for each field.

    ``finished_spec`` is the restart hash of the spec whose program has ended by itself; a status of an earlier operator has the generation
    only. ``waiting``: since when each slot that the spec asks for is not used, in seconds since 1970; see `decide.targets`.
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

    def has_finished(self, generation: int, spec: str) -> bool:
        """Whether the program of this spec, by its restart hash, has ended by itself; live fields do not run it again."""
        return self.finished_spec == spec if self.finished_spec else self.finished_generation == generation

    def condition(self, kind: ConditionType) -> Condition | None:
        """A condition; None before it was first written."""
        return next((each for each in self.conditions if each.type is kind), None)


def truncate(text: str, most: int = MESSAGE_CHARACTERS_MAX) -> str:
    """Text of at most so many characters; of a long one the beginning is kept, which says what happened, and the end, which says where.

    >>> truncate("abcdefgh", 7)
    'ab...gh'
    """
    text = text.strip()
    if len(text) <= most:
        return text
    kept = most - len(CUT)
    return text[: kept // 2] + CUT + text[len(text) - (kept - kept // 2) :]
