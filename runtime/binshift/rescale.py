"""The next action that gives a dataflow the workers it should have: one decision, shared by everything that rescales.

`decide` compares the observed with the desired state and returns the next actions, regardless of history. Its callers (the
supervisor of a local cluster, the Kubernetes operator) carry them out and call it again, after each change and periodically.
A crash between any two actions therefore leads to the same result, and repeating an action must be harmless.

The rows are tried from the top; all that match, up to the first that *ends* the decision, contribute their actions:

| observed | action |
|---|---|
| the target belongs to another owner and must not be taken over | `Wait(OTHER_OWNER)`; ends |
| the target is ours, but of a newer generation or with other workers: the desired state is outdated | `Wait(GENERATION)`; ends |
| a worker that is wanted or spare, or still holds bins, has no process | `StartWorkers`; continues |
| the control API does not respond | `Wait(RUNTIME)`; ends |
| the desired state is newer than the target, and a worker it adds is not registered | `Wait(REGISTRATION)`; ends |
| the desired state is newer than the target | `PutTarget`; ends |
| the target has not settled | `Wait(MIGRATION)`; ends |
| processes neither wanted nor spare, and no epoch recorded since it settled | `Wait(HOLD)`; ends |
| processes neither wanted nor spare, and one of them still holds bins | `Wait(BINS)`; ends |
| processes neither wanted nor spare | `StopWorkers`, all of them; ends |
| none of these | none: the desired state is reached |

So growing is: start, wait for registration, put the target, settle. Shrinking is: put the target without the slots that
leave, settle, one more epoch, stop. A new edit is a newer generation and starts at the top. A wanted worker that is already in
the target does not delay a newer one while it is missing: the runtime routes around it until it returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from binshift.errors import MigrationRefused
from binshift.model import Worker

Workers: TypeAlias = frozenset[Worker]

LOCAL_OWNER = "local"
"""The owner of targets that `binshift run` sets."""

HELD_EPOCHS_MIN = 1
"""Epochs that must be recorded after a target has settled before a process may be stopped: the source of a flip keeps
its copy for one more epoch, because that epoch may be replayed."""


@dataclass(frozen=True, slots=True)
class Target:
    """The workers that should hold the bins, by the order (owner, generation)."""

    owner: str
    generation: int
    workers: Workers


@dataclass(frozen=True, slots=True)
class Runtime:
    """The state reported by the control API."""

    target: Target | None
    """The desired target; None before the first."""
    registered: Workers
    """Workers with a live executor."""
    holding: Workers
    """Workers that own a bin in the recorded route."""
    settled: bool
    """Whether the recorded route is that of ``target``, and no migration is in progress."""
    held_epochs: int = 0
    """Epochs recorded since it settled."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state: the processes, and the runtime if it responds."""

    processes: Workers
    """Slots whose process (or pod) exists or is being started."""
    runtime: Runtime | None
    """None: the control API cannot be reached, so nothing is known of bins."""


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired state.

    Attributes:
        owner: of the target.
        generation: of the target.
        workers: the slots that should run and hold the bins; any set, not only the lowest.
        spare: further slots that should run without bins, such as one that cannot be scheduled and is not waited for.
        takes_over: this owner replaces another one's target, as a re-created resource does.

    Raises:
        MigrationRefused: ``workers`` is empty.
    """

    owner: str
    generation: int
    workers: Workers
    spare: Workers = frozenset()
    takes_over: bool = False

    def __post_init__(self) -> None:
        if not self.workers:
            raise MigrationRefused("0 workers cannot hold the bins: set 1 or more, or stop the dataflow")

    @property
    def processes(self) -> Workers:
        """The slots that should run."""
        return self.workers | self.spare


def lowest(count: int) -> Workers:
    """The slots ``0 .. count-1``.

    >>> sorted(lowest(3))
    [0, 1, 2]
    """
    return frozenset(map(Worker, range(count)))


@dataclass(frozen=True, slots=True)
class StartWorkers:
    """Start processes for these slots."""

    workers: Workers


@dataclass(frozen=True, slots=True)
class StopWorkers:
    """Stop the processes of these slots: all that are neither wanted nor spare."""

    workers: Workers


@dataclass(frozen=True, slots=True)
class PutTarget:
    """Set this target in the runtime."""

    target: Target


class Awaiting(StrEnum):
    """What the next step waits for; a closed list, usable as a condition's reason."""

    RUNTIME = "Runtime"
    OTHER_OWNER = "OtherOwner"
    GENERATION = "Generation"
    REGISTRATION = "Registration"
    MIGRATION = "Migration"
    HOLD = "Hold"
    BINS = "Bins"


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until it has changed; ``workers`` are those concerned."""

    awaiting: Awaiting
    workers: Workers = frozenset()


Action: TypeAlias = StartWorkers | PutTarget | StopWorkers | Wait


def decide(observed: Observed, desired: Desired) -> tuple[Action, ...]:
    """The next actions, in order; none if the desired state is reached.

    >>> world = Runtime(None, frozenset({Worker(0)}), frozenset({Worker(0)}), settled=False)
    >>> decide(Observed(frozenset({Worker(0)}), world), Desired("me", 1, lowest(1)))
    (PutTarget(target=Target(owner='me', generation=1, workers=frozenset({0}))),)
    """
    runtime = observed.runtime
    if runtime and (refused := _refused(runtime.target, desired)):
        return (refused,)
    missing = (desired.processes | (runtime.holding if runtime else frozenset())) - observed.processes
    starts: tuple[Action, ...] = (StartWorkers(missing),) if missing else ()
    if runtime is None:
        return *starts, Wait(Awaiting.RUNTIME)
    next_action = _towards_target(runtime, desired) or _towards_processes(observed.processes, runtime, desired)
    return (*starts, next_action) if next_action else starts


def _refused(target: Target | None, desired: Desired) -> Wait | None:
    """Why the desired state must not be applied."""
    if target is None:
        return None
    if target.owner != desired.owner:
        return None if desired.takes_over else Wait(Awaiting.OTHER_OWNER)
    differs = target.generation == desired.generation and target.workers != desired.workers
    return Wait(Awaiting.GENERATION) if differs or target.generation > desired.generation else None


def _towards_target(runtime: Runtime, desired: Desired) -> Action | None:
    """Set the target and wait until it has settled; None once it has."""
    wanted = Target(desired.owner, desired.generation, desired.workers)
    if runtime.target != wanted:
        added = wanted.workers - (runtime.target.workers if runtime.target else frozenset())
        absent = added - runtime.registered
        return Wait(Awaiting.REGISTRATION, absent) if absent else PutTarget(wanted)
    return None if runtime.settled else Wait(Awaiting.MIGRATION)


def _towards_processes(processes: Workers, runtime: Runtime, desired: Desired) -> Action | None:
    """Stop processes beyond a settled target of this owner."""
    extra = processes - desired.processes
    if not extra:
        return None
    if runtime.held_epochs < HELD_EPOCHS_MIN:
        return Wait(Awaiting.HOLD, extra)
    if still := extra & runtime.holding:
        return Wait(Awaiting.BINS, still)
    return StopWorkers(extra)
