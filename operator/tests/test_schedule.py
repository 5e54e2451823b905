"""When a dataflow is looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.registry import CollectorRegistry
from sim_server import SimServer

from binshift_operator.errors import Unreachable
from binshift_operator.kube import Kube
from binshift_operator.looking import Looking
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.schedule import BACKOFF_SECONDS_MAX, Schedule

A, B = ("ns", "a"), ("ns", "b")


class Clock:
    """One that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_place_each() -> None:
    """Woken twice, a dataflow is looked at once."""
    schedule = Schedule(Clock())
    schedule.wake(A)
    schedule.wake(A)
    assert schedule.take(0) == A
    assert schedule.take(0) is None


def test_woken_while_looked_at() -> None:
    """A wake-up during a look leads to another one right after it, never beside it."""
    schedule = Schedule(Clock())
    schedule.wake(A)
    assert schedule.take(0) == A
    schedule.wake(A)
    assert schedule.take(0) is None
    schedule.done(A, 60.0)
    assert schedule.take(0) == A


def test_again_in_time() -> None:
    """After a look the next one comes when it was asked for, or not at all."""
    clock = Clock()
    schedule = Schedule(clock)
    schedule.known({A, B})
    assert {schedule.take(0), schedule.take(0)} == {A, B}
    schedule.done(A, 5.0)
    schedule.done(B, None)
    assert schedule.take(0) is None
    clock.now += 5.0
    assert schedule.take(0) == A
    assert schedule.take(0) is None


def test_listing_disturbs_nobody() -> None:
    """Those that are known keep their times when all are listed."""
    clock = Clock()
    schedule = Schedule(clock)
    schedule.known({A})
    schedule.take(0)
    schedule.done(A, 5.0)
    schedule.known({A})
    assert schedule.take(0) is None


def crowd(schedule: Schedule, clock: Clock) -> list[tuple[str, str]]:
    """Many that have been due for longer and longer: more than threads can look at."""
    places = [("ns", f"c{number}") for number in range(100)]
    for place in places:
        schedule.known({place})
        clock.now += 0.1
    return places


def test_an_edit_does_not_queue_behind_a_crowd() -> None:
    """Whoever is woken is looked at within two turns, however many have been due for longer; and the crowd gets every second turn."""
    clock = Clock()
    schedule = Schedule(clock)
    places = crowd(schedule, clock)
    schedule.wake(A)
    assert A in (schedule.take(0), schedule.take(0))
    taken = []
    for _ in range(100):
        schedule.wake(B)
        taken.append(schedule.take(0))
        if taken[-1] == B:
            schedule.done(B, 60.0)
    assert taken.count(B) == 50
    assert [place for place in taken if place != B] == places[1:51]


def test_events_put_nobody_off() -> None:
    """One that has been due for long keeps its turn, however often it is woken."""
    clock = Clock()
    schedule = Schedule(clock)
    places = crowd(schedule, clock)
    for place in places:
        schedule.wake(place)
        clock.now += 0.1
    assert [schedule.take(0) for _ in places] == places


@given(st.integers(1, 40))
def test_failures_are_followed_by_longer_waits(failures: int) -> None:
    """The wait doubles up to its limit, events do not shorten it, and one success ends it."""
    clock = Clock()
    schedule = Schedule(clock, jitter=lambda: 1.0)
    schedule.wake(A)
    waits = []
    for _ in range(failures):
        began = clock.now
        while schedule.take(0) is None:
            schedule.wake(A)
            clock.now += 0.25
        waits.append(clock.now - began)
        schedule.failed(A)
    assert waits == sorted(waits)
    assert waits[-1] <= BACKOFF_SECONDS_MAX + 1
    clock.now += BACKOFF_SECONDS_MAX
    assert schedule.take(0) == A
    schedule.done(A, None)
    schedule.wake(A)
    assert schedule.take(0) == A


def test_closed() -> None:
    """A closed schedule gives nobody anything to do."""
    schedule = Schedule(Clock())
    schedule.wake(A)
    schedule.close()
    assert schedule.take(60) is None
    assert schedule.closed


def test_who_asks_for_time_gets_it() -> None:
    """A wait that was asked for is kept, and our own is not shortened by a shorter one."""
    clock = Clock()
    schedule = Schedule(clock, jitter=lambda: 1.0)
    schedule.wake(A)
    for asked, waited in ((50.0, 50.0), (1.0, 2.0)):
        assert schedule.take(0) == A
        schedule.failed(A, asked)
        schedule.wake(A)
        clock.now += waited - 0.5
        assert schedule.take(0) is None
        clock.now += 0.5
    assert schedule.take(0) == A


def test_a_busy_server_is_left_alone() -> None:
    """A look that ends with an answer that asks for time is not repeated before."""
    clock = Clock()
    schedule = Schedule(clock, jitter=lambda: 1.0)

    def look(namespace: str, name: str) -> float:
        raise Unreachable("too busy", 40.0)

    looking = Looking(schedule, look, Kube(SimServer(clock)), OperatorMetrics(CollectorRegistry()), (), 60.0, 1)
    schedule.wake(A)
    place = schedule.take(0)
    assert place == A
    looking._look(place)
    clock.now += 39.0
    assert schedule.take(0) is None
    clock.now += 1.0
    assert schedule.take(0) == A
