"""Faults by number: every effect a simulated process has is counted, and one of them may go wrong.

An effect is a write to the log's files, a transaction of a local store, or a step between processes (a task starts, a
summary is sent, Spark commits). What happens at it is decided before it is done, by a plan from effects to faults: the
process is killed there, the file system refuses, the reply is lost although it was done, or the process stands still
while the rest of the world goes on. So one number, or one seed, repeats a run.

`Killed` is no `Exception`: nothing but the simulation may catch it, as nothing catches SIGKILL. What a dying process
does in its ``finally`` blocks has no effect.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from binshift.errors import BinshiftError, StorageUnavailable

T = TypeVar("T")

TRACE_LENGTH_MAX = 2000
"""Effects remembered for messages; older ones are forgotten."""


@dataclass(eq=False)
class Process:
    """Something that can be killed.

    Attributes:
        name: for messages.
        dead: whether it has been.
    """

    name: str
    dead: bool = False


class Killed(BaseException):  # like KeyboardInterrupt: no handler for errors may see it
    """A process was killed at an effect."""

    def __init__(self, process: Process, what: str) -> None:
        super().__init__(f"{process.name} was killed before {what}")
        self.process = process


class Effect(NamedTuple):
    """One thing that a process is about to do.

    Attributes:
        number: how many effects there were before it, plus one.
        process: who.
        kind: ``write`` (files), ``read`` (files), ``store`` (a transaction), ``step`` (between processes).
        what: of which file, or which step.
    """

    number: int
    process: Process
    kind: str
    what: str


class Fault(enum.Enum):
    """What may go wrong at an effect, beside standing still (`Meanwhile`)."""

    KILL = "the process is killed before it"
    REFUSE = "it is not done, and fails"
    LOSE = "it is done, and fails: the reply is lost"


Meanwhile = Callable[[], None]
"""What the rest of the world does while the process stands still."""

Plan = Callable[[Effect], Fault | Meanwhile | None]


def at(faults: Mapping[int, Fault | Meanwhile]) -> Plan:
    """The plan in which the effects with these numbers go wrong, and no others."""
    return lambda effect: faults.get(effect.number)


def nothing(effect: Effect) -> None:
    """The plan in which nothing goes wrong."""


@dataclass
class Faults:
    """Counts effects and makes some of them go wrong.

    Attributes:
        plan: what goes wrong.
        count: effects so far.
        struck: the effects that went wrong, in order, as text.
        trace: the newest effects, as text.
    """

    plan: Plan = nothing
    count: int = 0
    struck: list[str] = field(default_factory=list)
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=TRACE_LENGTH_MAX))

    def effect(
        self,
        process: Process,
        kind: str,
        what: str,
        act: Callable[[], T],
        error: type[BinshiftError] = StorageUnavailable,
    ) -> T:
        """Do ``act``, unless the plan has something else in mind.

        Raises:
            Killed: the process dies here, or is dead already.
            error: the fault is a refusal or a lost reply.
        """
        if process.dead:
            raise Killed(process, what)
        self.count += 1
        effect = Effect(self.count, process, kind, what)
        self.trace.append(f"{effect.number} {process.name}: {kind} {what}")
        fault = self.plan(effect)
        if fault is None:
            return act()
        self.struck.append(f"{self.trace[-1]}: {fault.name if isinstance(fault, Fault) else 'stands still'}")
        return self._strike(fault, effect, act, error)

    def _strike(self, fault: Fault | Meanwhile, effect: Effect, act: Callable[[], T], error: type[BinshiftError]) -> T:
        process, what = effect.process, effect.what
        match fault:
            case Fault.KILL:
                process.dead = True
                raise Killed(process, what)
            case Fault.REFUSE:
                raise error(f"simulated: {what} was refused")
            case Fault.LOSE:
                act()
                raise error(f"simulated: the reply to {what} was lost")
            case _:
                fault()
                if process.dead:
                    raise Killed(process, what)
                return act()

    def step(self, process: Process, what: str) -> None:
        """A step between processes, at which one may be killed or stand still."""
        self.effect(process, "step", what, _done)


def _done() -> None:
    """A step has no content of its own."""
