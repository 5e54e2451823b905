"""The events and actions of a migration: two closed sets of frozen cases.

The caller (driver and background jobs) reports events and carries out actions; it decides nothing itself. It must keep these
rules, which the machine cannot check:

- Actions for one worker are carried out in the order in which they were returned, across successive migrations too: a
  `Retire` after the next migration's `Copy` of the same bin would drop the copy.
- `Copy` means: bring these bins up to the newest recorded epoch, keep them current, delta by delta, until they flip or are
  dropped, and report `CopyAt` after each round that has all of them. Copies are made of recorded epochs only.
- A lost copy is reported as `CopyFailed`, whatever the reason, even while its step flips.
- An epoch that has started is recorded or abandoned before the next one starts. A replayed epoch (its record exists) starts
  nothing: its route is in the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, TypeAlias

from binshift.migration.limits import Limits
from binshift.model import BinSet, Epoch, Moves, Worker

StepNumber = NewType("StepNumber", int)
"""The position of a step in its plan, from 0."""


@dataclass(frozen=True, slots=True)
class Started:
    """The migration may run."""


@dataclass(frozen=True, slots=True)
class WorkersWarm:
    """These workers have run empty epochs: their JVM, both kinds of Python worker and store are ready."""

    workers: frozenset[Worker]


@dataclass(frozen=True, slots=True)
class CopyAt:
    """``destination`` has all of the step's bins that move to it, in the state recorded for ``epoch``."""

    step: StepNumber
    destination: Worker
    epoch: Epoch
    attempt: int


@dataclass(frozen=True, slots=True)
class CopyFailed:
    """A copy failed or was lost. ``retryable``: a new attempt can help."""

    step: StepNumber
    destination: Worker
    reason: str
    retryable: bool
    attempt: int


@dataclass(frozen=True, slots=True)
class RoundReported:
    """A round of background work has ended, with all its jobs, and its `CopyAt` and `CopyFailed` reports were passed on."""


@dataclass(frozen=True, slots=True)
class EpochStarting:
    """The driver is about to fix the route of ``epoch``; the reaction is a `Flip`, or nothing."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochRecorded:
    """The commit record of ``epoch`` exists: its route is final."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochAbandoned:
    """A run of ``epoch`` ended without a record, and its route is void; the epoch will start again."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker was missing for longer than the limit. A new plan gives its bins to other owners."""

    worker: Worker


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop where it is safe: on request, or because a new target or a time limit ends this migration."""

    reason: str


@dataclass(frozen=True, slots=True)
class Paced:
    """New limits apply from now on; steps in progress are not affected."""

    limits: Limits


Event: TypeAlias = (
    Started
    | WorkersWarm
    | CopyAt
    | CopyFailed
    | RoundReported
    | EpochStarting
    | EpochRecorded
    | EpochAbandoned
    | WorkerLost
    | Cancel
    | Paced
)


@dataclass(frozen=True, slots=True)
class Warm:
    """Prepare these workers for their first bin; the response is `WorkersWarm`."""

    workers: frozenset[Worker]


@dataclass(frozen=True, slots=True)
class Copy:
    """Make copies of ``bins`` on ``destination`` and keep them current; responses carry ``attempt``."""

    step: StepNumber
    destination: Worker
    bins: BinSet
    attempt: int


@dataclass(frozen=True, slots=True)
class Flip:
    """Put ``moves`` into the route of ``epoch``, which is starting now. They are the moves of ``steps``."""

    epoch: Epoch
    steps: tuple[StepNumber, ...]
    moves: Moves


@dataclass(frozen=True, slots=True)
class Retire:
    """Drop the copies that ``worker`` kept of bins that it gave away: no replay can need them any more."""

    worker: Worker
    bins: BinSet


@dataclass(frozen=True, slots=True)
class DropCopies:
    """Drop the copies of ``bins`` on ``worker``, or stop making them: they will not flip."""

    worker: Worker
    bins: BinSet


Action: TypeAlias = Warm | Copy | Flip | Retire | DropCopies
