"""A job is cancelled when an executor that it needs is lost or replaced, and not otherwise."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import cast

import pytest
from pyspark import SparkContext

from binshift.engine.ports import Executor
from binshift.model import Worker
from binshift.spark.jobs import watch
from binshift.spark.jobs.watch import JobWatch
from binshift.spark.session.executors import ExecutorView

LONG_SECONDS = 30.0
FIRST, SECOND = Executor("1", "127.0.0.2", 2), Executor("2", "127.0.0.3", 2)


class Context:
    """The part of Spark that the watch calls."""

    def __init__(self) -> None:
        self.tags: list[str] = []
        self.cancelled: list[str] = []
        self.notified = threading.Event()

    def addJobTag(self, tag: str) -> None:  # noqa: N802 (PySpark's name)
        self.tags.append(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802 (PySpark's name)
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802 (PySpark's name)
        self.cancelled.append(tag)
        self.notified.set()


class View:
    """The executors; counts how often they were read."""

    def __init__(self, executors: Mapping[Worker, Executor]) -> None:
        self.now = executors
        self.looks = threading.Semaphore(0)

    def alive(self) -> Mapping[Worker, Executor]:
        self.looks.release()
        if not self.now:
            raise RuntimeError("the status store is busy")
        return self.now

    def await_checks(self, number: int) -> None:
        for _ in range(number):
            assert self.looks.acquire(timeout=LONG_SECONDS)


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
def view() -> View:
    return View({Worker(0): FIRST, Worker(1): SECOND})


@pytest.fixture
def watching(context: Context, view: View, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobWatch]:
    monkeypatch.setattr(watch, "PERIOD_SECONDS", 0.01)
    made = JobWatch(cast(SparkContext, context), cast(ExecutorView, view), "q-1").start()
    yield made
    made.close()


@pytest.mark.parametrize("then", [{Worker(1): SECOND}, {Worker(0): Executor("3", "127.0.0.2", 2)}], ids=["gone", "new"])
def test_cancelled(watching: JobWatch, context: Context, view: View, then: dict[Worker, Executor]) -> None:
    """A job whose executor was lost or restarted is cancelled by its tag."""
    with watching.over("epoch", {Worker(0): FIRST}):
        assert context.tags == ["binshift-q-1-epoch"]
        view.now = then
        assert context.notified.wait(LONG_SECONDS)
    assert set(context.cancelled) == {"binshift-q-1-epoch"}
    assert context.tags == []


def test_left_alone(watching: JobWatch, context: Context, view: View) -> None:
    """Executors that the job does not need may be lost; a failed reading has no effect."""
    with watching.over("epoch", {Worker(0): FIRST}), watching.over("round", {Worker(0): FIRST}):
        view.await_checks(3)
        view.now = {Worker(0): FIRST}
        view.await_checks(3)
        view.now = {}
        view.await_checks(3)
    assert context.cancelled == []


def test_only_the_job_that_needs_it(watching: JobWatch, context: Context, view: View) -> None:
    """Of two jobs, only the one whose executor was lost is cancelled."""
    with watching.over("round", {Worker(1): SECOND}), watching.over("epoch", {Worker(0): FIRST}):
        view.now = {Worker(1): SECOND}
        assert context.notified.wait(LONG_SECONDS)
    assert set(context.cancelled) == {"binshift-q-1-epoch"}


def test_nothing_is_read_between_jobs(watching: JobWatch, view: View) -> None:
    """Without a job of some age, the executors are not read."""
    with watching.over("epoch", {Worker(0): FIRST}):
        view.await_checks(1)
    while view.looks.acquire(timeout=0.2):
        pass
    assert not view.looks.acquire(timeout=0.2)
