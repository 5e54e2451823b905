"""Numbered faults: every effect of a simulated process is counted, and each may fail.

An effect is a write to the log's files, a transaction of a local store, or a step between processes (a task starts, a
summary is sent, Spark commits). A plan from effects to faults decides the outcome before the effect: the process is killed, the
file system returns an error, the response is lost although the effect took place, or the process is suspended while all others
continue. So one number, or one seed, reproduces a run.

`Killed` is not an `Exception`: only the simulation may catch it, as nothing catches SIGKILL. The ``finally`` blocks of a
dying process have no effect.
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
"""Effects kept for messages; older ones are dropped."""


@dataclass(eq=False)
class Process:
    """Something that can be killed.

    Attributes:
        name: for messages.
        dead: whether it was killed.
    """

    name: str
    dead: bool = False


class Killed(BaseException):  # like KeyboardInterrupt: no handler for errors may see it
    """A process was killed at an effect."""

    def __init__(self, process: Process, what: str) -> None:
        super().__init__(f"{process.name} was killed before {what}")
        self.process = process


class Effect(NamedTuple):
    """An operation that a process is about to perform.

    Attributes:
        number: its number, counted from 1.
        process: the process.
        kind: ``write`` (files), ``read`` (files), ``store`` (a transaction), ``step`` (between processes).
        what: the file or step.
    """

    number: int
    process: Process
    kind: str
    what: str


class Fault(enum.Enum):
    """What may go wrong at an effect, in addition to a suspension (`Meanwhile`)."""

    KILL = "the process is killed before it"
    REFUSE = "it is not done, and fails"
    LOSE = "it is done, and fails: the reply is lost"


Meanwhile = Callable[[], None]
"""What other processes do while the process is suspended."""

Plan = Callable[[Effect], Fault | Meanwhile | None]


def at(faults: Mapping[int, Fault | Meanwhile]) -> Plan:
    """The plan in which only the effects with these numbers fail."""
    return lambda effect: faults.get(effect.number)


def nothing(effect: Effect) -> None:
    """The plan without faults."""


@dataclass
class Faults:
    """Counts effects and makes some of them fail.

    Attributes:
        plan: decides which.
        count: the number of effects so far.
        struck: the effects that failed, in order, as text.
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
        """Perform ``act``, unless the plan has a fault for it.

        Raises:
            Killed: the process dies here, or is already dead.
            error: the fault is an error or a lost response.
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
        """A step between processes, at which one may be killed or suspended."""
        self.effect(process, "step", what, _done)


def _done() -> None:
    """A step has no operation of its own."""
