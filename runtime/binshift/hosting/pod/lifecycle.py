"""What a program's end means, and whether it is run again. Pure: the clock and the processes are others'.

A program that failed is run again, at first after a second, then after twice as long each time, up to a minute; one whose
query ran for five minutes had been well, and starts over with a second. One that ended by itself or was stopped rests; so
does one that another driver has replaced, as trying again would take the log from it.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final

from binshift.backoff import backoff_seconds
from binshift.control.models import REASON_CHARACTERS_MAX, State
from binshift.errors import Fenced
from binshift.spark.session.failures import without_java

FIRST_SECONDS: Final = 1.0
LAST_SECONDS: Final = 60.0
HEALTHY_SECONDS: Final = 300.0
REASON_CHARACTERS: Final = REASON_CHARACTERS_MAX - 200
"""Leaves room for surrounding text; well below the 4096 bytes that Kubernetes keeps of a termination message."""
CAUSE_CHARACTERS: Final = 800
CAUSES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run of the program ended.

    Attributes:
        state: Stopped, Finished, Failed or Fenced.
        reason: why, for people: what was raised, then the end of the traceback.
        healthy_seconds: for how long its query ran.
    """

    state: State
    reason: str = ""
    healthy_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Again:
    """Run it again.

    Attributes:
        after_seconds: how long to wait first.
        failures: in a row, this one included.
    """

    after_seconds: float
    failures: int


@dataclass(frozen=True, slots=True)
class Rest:
    """Do not: another process decides what comes next."""


Next = Again | Rest


def after(outcome: Outcome, failures: int) -> Next:
    """What comes after a run that ended so, if ``failures`` in a row had failed before it.

    >>> after(Outcome(State.FAILED), 0), after(Outcome(State.FAILED), 3), after(Outcome(State.FAILED, "", 300.0), 9)
    (Again(after_seconds=1.0, failures=1), Again(after_seconds=8.0, failures=4), Again(after_seconds=1.0, failures=1))
    >>> after(Outcome(State.FENCED), 0)
    Rest()
    """
    if outcome.state is not State.FAILED:
        return Rest()
    before = 0 if outcome.healthy_seconds >= HEALTHY_SECONDS else failures
    return Again(backoff_seconds(before + 1, FIRST_SECONDS, LAST_SECONDS), before + 1)


def stopped(outcome: Outcome) -> Outcome:
    """The outcome of a run with a requested stop: a failure after the request does not count as one."""
    if outcome.state in {State.FINISHED, State.FENCED}:
        return outcome
    return Outcome(State.STOPPED, outcome.reason if outcome.state is State.FAILED else "", outcome.healthy_seconds)


def of_program(
    query: tuple[State, str] | None, stop_requested: bool, error: BaseException | None, text: str
) -> Outcome:
    """How a program ended that came to its own end.

    Args:
        query: the query's last state, and why; None if there was none.
        stop_requested: whether a stop of the query was requested from outside.
        error: what the program raised; None if nothing.
        text: its traceback, without Java frames, or another description of a failure; empty for an exit status of 0.
    """
    if error is not None and any(isinstance(each, Fenced) for each in causes(error)):
        return Outcome(State.FENCED, str(next(each for each in causes(error) if isinstance(each, Fenced))))
    if text:
        return Outcome(State.FAILED, cause_first(error, "\n".join(without_java(text.splitlines()))))
    if query is None:
        return Outcome(State.FINISHED, "the program ended without having started a stateful query")
    state, reason = query
    if state is State.RUNNING:
        wait = "end the program with `query.awaitTermination()`"
        return Outcome(State.FAILED, f"the program ended while its query was running: {wait}")
    if state is State.STOPPED and not stop_requested:
        return Outcome(State.FINISHED, "the program stopped its query")
    return Outcome(state, reason)


def of_process(status: int) -> Outcome:
    """The outcome of a program that ended without a report.

    >>> of_process(137).reason
    'the program was killed by signal 9, as it is when its container has no memory left'
    """
    if status > 128:
        signal = status - 128
        why = ", as it is when its container has no memory left" if signal == 9 else ""
        return Outcome(State.FAILED, f"the program was killed by signal {signal}{why}")
    return Outcome(State.FAILED, f"the program's process ended with status {status} before the program did")


def again_reason(outcome: Outcome, failures: int) -> str:
    """The reason shown while a program runs again that has failed ``failures`` times in a row."""
    times = "once" if failures == 1 else f"{failures} times in a row"
    return f"it is tried again, having failed {times}, last so: {outcome.reason}"


def cause_first(error: BaseException | None, text: str) -> str:
    """A traceback with what was raised first, and then the end of the way to it: who shows only the beginning shows the cause.

    >>> cause_first(KeyError("x"), "Traceback:" + chr(10) + "  File a.py, line 1" + chr(10) + "KeyError: 'x'").splitlines()
    ["KeyError: 'x'", 'Traceback:', '  File a.py, line 1']
    """
    lines = [] if error is None else "".join(traceback.format_exception_only(error)).splitlines()
    description = "\n".join(without_java(lines)).strip()
    cause = _ends(description, CAUSE_CHARACTERS)
    rest = tail(text.strip().removesuffix(description), REASON_CHARACTERS - len(cause) - 1)
    return f"{cause}\n{rest}".strip()


def _ends(text: str, characters: int) -> str:
    """The beginning of a text and its end: an error of a user's function has that function's own error in its last line."""
    begin = characters // 4
    return text if len(text) <= characters else f"{text[:begin]}\n{tail(text[begin:], characters - begin - 1)}"


def tail(text: str, characters: int = REASON_CHARACTERS) -> str:
    """The end of a text, from a line's beginning on.

    >>> tail("first line" + chr(10) + "second" + chr(10), 12)
    '... second'
    """
    text = text.strip()
    if len(text) <= characters:
        return text
    end = text[-characters + 4 :]
    _, newline, rest = end.partition("\n")
    return f"... {rest if newline else end}"


def causes(error: BaseException) -> list[BaseException]:
    """An error and what it came from, nearest first."""
    found: list[BaseException] = []
    todo: BaseException | None = error
    while todo is not None and todo not in found and len(found) < CAUSES_MAX:
        found.append(todo)
        todo = todo.__cause__ or todo.__context__
    return found
