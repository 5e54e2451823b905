"""What a migration hears and what it asks for: two closed sets of frozen cases.

The rim (driver and background jobs) turns what happens into events and carries out actions; it decides nothing itself.
Rules it keeps, as the machine cannot check them:

- Actions for one worker are carried out in the order they were given, over successive migrations too: a `Retire` that
  came after the next migration's `Copy` of the same bin would drop it.
- `Copy` means: bring these bins up to the newest recorded epoch, keep them there, delta by delta, until they flip or
  are dropped, and say so with `CopyAt` after each round in which all of them are there. Copies are made of recorded
  epochs only.
- A copy that is lost, for whatever reason, is reported as `CopyFailed`, also while its step flips.
- An epoch that has started is recorded or abandoned before the next one starts. A replayed epoch (its record exists)
  starts nothing: its route is in the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, TypeAlias

from binshift.migration.limits import Limits
from binshift.model import BinSet, Epoch, Moves, Worker

StepNumber = NewType("StepNumber", int)
"""The place of a step in its plan, from 0."""


@dataclass(frozen=True, slots=True)
class Started:
    """The order may be carried out."""


@dataclass(frozen=True, slots=True)
class WorkersWarm:
    """These workers have run empty epochs: JVM, both kinds of Python worker and store are up."""

    workers: frozenset[Worker]


@dataclass(frozen=True, slots=True)
class CopyAt:
    """All bins of a step that go to ``destination`` are there, in the state recorded for ``epoch``."""

    step: StepNumber
    destination: Worker
    epoch: Epoch
    attempt: int


@dataclass(frozen=True, slots=True)
class CopyFailed:
    """A copy was not made, or was lost. ``retryable``: starting it again can help."""

    step: StepNumber
    destination: Worker
    reason: str
    retryable: bool
    attempt: int


@dataclass(frozen=True, slots=True)
class RoundReported:
    """A round of background work has ended, with all its jobs, and what they said of copies (`CopyAt`, `CopyFailed`) was passed on."""


@dataclass(frozen=True, slots=True)
class EpochStarting:
    """The driver is about to fix the route of ``epoch``; the answer is a `Flip`, or nothing."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochRecorded:
    """The commit record of ``epoch`` exists: its route is a fact."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochAbandoned:
    """A run of ``epoch`` ended without a record, and its route counts for nothing; the epoch will start again."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker stayed away for longer than is waited for. Its bins get other owners by a plan of their own."""

    worker: Worker


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop where it does no harm: someone asked, a new target supersedes this one, or time is up."""

    reason: str


@dataclass(frozen=True, slots=True)
class Paced:
    """Other limits from now on; what is under way stays under way."""

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
    """Make these workers ready for their first bin, and answer `WorkersWarm`."""

    workers: frozenset[Worker]


@dataclass(frozen=True, slots=True)
class Copy:
    """Make copies of ``bins`` on ``destination`` and keep them up to date; answers carry ``attempt``."""

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
    """Drop the copies that ``worker`` kept of bins it gave away: no replay can want them any more."""

    worker: Worker
    bins: BinSet


@dataclass(frozen=True, slots=True)
class DropCopies:
    """Drop, or stop making, the copies of ``bins`` on ``worker``: they will not flip."""

    worker: Worker
    bins: BinSet


Action: TypeAlias = Warm | Copy | Flip | Retire | DropCopies
