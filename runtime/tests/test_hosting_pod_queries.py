"""The program's side of the channel, for a program with several queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from binshift.control.models import State
from binshift.hosting.pod import channel
from binshift.hosting.pod.program import Child
from binshift.model import Worker

SECONDS = 30.0


@dataclass(eq=False)
class ControlService:
    """A query as seen by the child."""

    does: State = State.RUNNING
    stop_requested: bool = False
    application: str = "app-1"

    def state(self) -> tuple[State, str]:
        """Its state."""
        return self.does, ""

    def stop(self) -> None:
        """Ends it."""
        self.stop_requested, self.does = True, State.STOPPED


@dataclass
class Driver:
    """The driver's end of the channel, and a fake control API."""

    messages: list[channel.Report] = field(default_factory=list)
    serving: threading.Event = field(default_factory=threading.Event)

    def send(self, message: channel.Report) -> None:
        """Heard."""
        self.messages.append(message)

    def attach(self, query: Any) -> Any:
        """Each query is its own service."""
        return query

    def start(self) -> None:
        """Serve."""
        self.serving.set()

    def stop(self) -> None:
        """Stop serving."""
        self.serving.clear()

    def kinds(self) -> list[str]:
        """The messages so far, by kind."""
        return [type(each).__name__ for each in self.messages]


def begun() -> tuple[Driver, Child]:
    """A child that has started no query."""
    driver = Driver()
    return driver, Child(cast(Any, driver), cast(Any, driver))


def wait(observe: Callable[[], Any], wanted: Callable[[Any], bool]) -> None:
    """Wait until the result of ``observe`` is ``wanted``."""
    deadline = time.monotonic() + SECONDS
    while not wanted(seen := observe()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.01)


def test_the_driver_hears_of_the_first_query_and_of_the_end_of_the_last() -> None:
    """A request to one of several queries is between the caller and that query; the driver would take it for the program's."""
    driver, child = begun()
    one, other = ControlService(), ControlService()
    child.recorded(frozenset({Worker(0)}))
    child.started(cast(Any, one))
    child.recorded(frozenset({Worker(1)}))
    child.started(cast(Any, other))
    one.stop()
    again = ControlService()
    child.started(cast(Any, again))
    assert driver.kinds() == ["Recorded", "Started"]
    child.receive(channel.STOP)
    wait(driver.kinds, lambda kinds: kinds == ["Recorded", "Started", "Stopping", "Over"])
    assert [each.stop_requested for each in (other, again)] == [True, True]
    child.ended(None, "")
    assert driver.messages[-1] == channel.Ended(State.STOPPED, "", True)


def test_a_program_that_ends_while_one_of_its_queries_runs_has_failed() -> None:
    """It fails even if another query has ended normally."""
    driver, child = begun()
    one, other = ControlService(), ControlService()
    child.started(cast(Any, one))
    child.started(cast(Any, other))
    other.does = State.FINISHED
    child.ended(None, "")
    last = driver.messages[-1]
    assert isinstance(last, channel.Ended)
    assert (last.state, "while its query was running" in last.reason) == (State.FAILED, True)


def test_queries_one_after_the_other_are_each_the_programs() -> None:
    """The driver is notified of each."""
    driver, child = begun()
    for _ in range(2):
        query = ControlService()
        child.started(cast(Any, query))
        query.does = State.FINISHED
        before = len(driver.messages)
        wait(lambda: len(driver.messages), before.__lt__)
    assert driver.kinds() == ["Started", "Over", "Started", "Over"]


def test_a_standby_reports_once_that_it_waits() -> None:
    """Its program asks often whether it can start, as executors rehearse meanwhile; a session that is made again has another application."""
    driver = Driver()
    child = Child(cast(Any, driver), cast(Any, driver), standby=True)
    assert [child.admitted("app-1", 0) for _ in range(3)] == [False] * 3
    child.rehearsed(frozenset({Worker(1), Worker(0)}))
    assert not child.admitted("app-2", 0)
    assert driver.messages == [channel.Parked("app-1"), channel.Rehearsed((0, 1)), channel.Parked("app-2")]
    threading.Timer(0.05, child.receive, [channel.ACTIVATE]).start()
    assert child.admitted("app-2", None)
    assert child.admitted("app-3", 0)
    assert driver.kinds()[-1] == "Parked"
    assert len(driver.messages) == 3


def test_a_driver_without_a_standby_waits_for_nothing() -> None:
    """Its queries start at once, and no message is sent."""
    driver, child = begun()
    assert child.admitted("app-1", 0)
    assert driver.messages == []
