"""Cancels jobs that wait for lost executors.

Spark fails a job at once when an executor is lost with a running task. A task that was not yet launched is not lost with its
executor: it waits for another one, and if no executor is left or has a free slot, it waits forever. Every binshift job is pinned
to executors that it needs. Once one of them is lost, the job is cancelled, and its owner decides again from the executors
that are then registered.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import SparkContext

from binshift.engine.ports import Executor
from binshift.model import Worker
from binshift.spark.session.executors import ExecutorView

log = logging.getLogger(__name__)

PERIOD_SECONDS = 0.5
"""Interval of the checks; younger jobs are not checked, so that a short epoch costs nothing."""


@dataclass(frozen=True)
class Watched:
    """A running job.

    Attributes:
        tag: its job tag in Spark.
        executors: the executors that it needs.
        since: when it began (monotonic).
    """

    tag: str
    executors: Mapping[Worker, Executor]
    since: float

    def gone(self, alive: Mapping[Worker, Executor]) -> list[Worker]:
        """Workers whose executor was lost or replaced."""
        return sorted(worker for worker, executor in self.executors.items() if alive.get(worker) != executor)


class JobWatch:
    """A thread of the driver that supervises the jobs of one query.

    Args:
        context: the context whose jobs are cancelled.
        view: the live executors.
        name: of the query; part of the jobs' tags.
    """

    def __init__(self, context: SparkContext, view: ExecutorView, name: str) -> None:
        self._context = context
        self._view = view
        self._name = name
        self._jobs: dict[str, Watched] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="binshift-watch", daemon=True)

    def start(self) -> JobWatch:
        """Start the thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()

    @contextmanager
    def over(self, kind: str, executors: Mapping[Worker, Executor]) -> Iterator[None]:
        """Declare that Spark jobs run by this thread in this context need all these executors.

        Args:
            kind: "epoch", "round"; at most one of a kind at a time.
            executors: by worker.
        """
        tag = self._tag(kind)
        self._context.addJobTag(tag)
        self._jobs[tag] = Watched(tag, dict(executors), time.monotonic())
        try:
            yield
        finally:
            del self._jobs[tag]
            self._context.removeJobTag(tag)

    def working(self, kind: str) -> bool:
        """Whether Spark is running a job of this kind."""
        try:
            tagged = self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag(kind))
            return not set(tagged).isdisjoint(self._context.statusTracker().getActiveJobsIds())
        except Exception as error:  # the context may have ended: it runs no job
            log.warning("the running jobs could not be read: %s", error)
            return False

    def _tag(self, kind: str) -> str:
        return f"binshift-{self._name}-{kind}"

    def _loop(self) -> None:
        while not self._closed.wait(PERIOD_SECONDS):
            old = [job for job in list(self._jobs.values()) if time.monotonic() - job.since > PERIOD_SECONDS]
            try:
                self._check(old)
            except Exception as error:  # outermost frame of a thread: the context may end before the query does
                log.warning("the executors of running jobs could not be read: %s", error)

    def _check(self, jobs: Sequence[Watched]) -> None:
        alive = self._view.alive() if jobs else {}
        for job in jobs:
            gone = job.gone(alive)
            if not gone or self._jobs.get(job.tag) is not job:
                continue
            log.warning("workers %s have lost their executors: cancelling %s", gone, job.tag)
            self._context.cancelJobsWithTag(job.tag)
