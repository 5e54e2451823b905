"""When a dataflow is reconciled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.registry import CollectorRegistry
from sim_server import SimServer

from binshift_operator.controller import Controller
from binshift_operator.errors import Unreachable
from binshift_operator.kube import Kube
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.reconcile import Result
from binshift_operator.work_queue import BACKOFF_SECONDS_MAX, WorkQueue

A, B = ("ns", "a"), ("ns", "b")


class Clock:
    """One that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_place_each() -> None:
    """Woken twice, a dataflow is reconciled once."""
    queue = WorkQueue(Clock())
    queue.add(A)
    queue.add(A)
    assert queue.get(0) == A
    assert queue.get(0) is None


def test_added_while_processed() -> None:
    """A key that is added during a reconciliation is reconciled right after it, never concurrently."""
    queue = WorkQueue(Clock())
    queue.add(A)
    assert queue.get(0) == A
    queue.add(A)
    assert queue.get(0) is None
    queue.forget(A, 60.0)
    assert queue.get(0) == A


def test_again_in_time() -> None:
    """After a reconciliation the next one starts when it was requested, or not at all."""
    clock = Clock()
    queue = WorkQueue(clock)
    queue.add_missing({A, B})
    assert {queue.get(0), queue.get(0)} == {A, B}
    queue.forget(A, 5.0)
    queue.forget(B, None)
    assert queue.get(0) is None
    clock.now += 5.0
    assert queue.get(0) == A
    assert queue.get(0) is None


def test_listing_keeps_known_keys() -> None:
    """Known keys keep their times when all are listed."""
    clock = Clock()
    queue = WorkQueue(clock)
    queue.add_missing({A})
    queue.get(0)
    queue.forget(A, 5.0)
    queue.add_missing({A})
    assert queue.get(0) is None


def crowd(queue: WorkQueue, clock: Clock) -> list[tuple[str, str]]:
    """Many keys that have been due for longer and longer: more than threads can process."""
    keys = [("ns", f"c{number}") for number in range(100)]
    for key in keys:
        queue.add_missing({key})
        clock.now += 0.1
    return keys


def test_an_edit_does_not_queue_behind_a_crowd() -> None:
    """An added key is processed within two turns, however many have been due for longer; and these get every second turn."""
    clock = Clock()
    queue = WorkQueue(clock)
    keys = crowd(queue, clock)
    queue.add(A)
    assert A in (queue.get(0), queue.get(0))
    taken = []
    for _ in range(100):
        queue.add(B)
        taken.append(queue.get(0))
        if taken[-1] == B:
            queue.forget(B, 60.0)
    assert taken.count(B) == 50
    assert [key for key in taken if key != B] == keys[1:51]


def test_events_delay_no_key() -> None:
    """One that has been due for long keeps its turn, however often it is woken."""
    clock = Clock()
    queue = WorkQueue(clock)
    keys = crowd(queue, clock)
    for key in keys:
        queue.add(key)
        clock.now += 0.1
    assert [queue.get(0) for _ in keys] == keys


@given(st.integers(1, 40))
def test_failures_are_followed_by_longer_waits(failures: int) -> None:
    """The wait doubles up to its limit, events do not shorten it, and one success ends it."""
    clock = Clock()
    queue = WorkQueue(clock, jitter=lambda: 1.0)
    queue.add(A)
    waits = []
    for _ in range(failures):
        began = clock.now
        while queue.get(0) is None:
            queue.add(A)
            clock.now += 0.25
        waits.append(clock.now - began)
        queue.add_rate_limited(A)
    assert waits == sorted(waits)
    assert waits[-1] <= BACKOFF_SECONDS_MAX + 1
    clock.now += BACKOFF_SECONDS_MAX
    assert queue.get(0) == A
    queue.forget(A, None)
    queue.add(A)
    assert queue.get(0) == A


def test_closed() -> None:
    """A queue that is shut down returns no keys."""
    queue = WorkQueue(Clock())
    queue.add(A)
    queue.shut_down()
    assert queue.get(60) is None
    assert queue.shutting_down


def test_requested_delay_is_kept() -> None:
    """A requested wait is kept, and our own is not shortened by a shorter one."""
    clock = Clock()
    queue = WorkQueue(clock, jitter=lambda: 1.0)
    queue.add(A)
    for delay, waited in ((50.0, 50.0), (1.0, 2.0)):
        assert queue.get(0) == A
        queue.add_rate_limited(A, delay)
        queue.add(A)
        clock.now += waited - 0.5
        assert queue.get(0) is None
        clock.now += 0.5
    assert queue.get(0) == A


def test_a_busy_server_is_left_alone() -> None:
    """A reconciliation that ends with a requested delay is not repeated before."""
    clock = Clock()
    queue = WorkQueue(clock, jitter=lambda: 1.0)

    def reconcile(namespace: str, name: str) -> Result:
        raise Unreachable("too busy", 40.0)

    controller = Controller(queue, reconcile, Kube(SimServer(clock)), OperatorMetrics(CollectorRegistry()), (), 60.0, 1)
    queue.add(A)
    key = queue.get(0)
    assert key == A
    controller._process(key)
    clock.now += 39.0
    assert queue.get(0) is None
    clock.now += 1.0
    assert queue.get(0) == A
