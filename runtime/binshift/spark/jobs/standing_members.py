"""The Spark jobs that standing tasks are: one on each executor, which lasts as long as the executor or the query."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from binshift.engine.ports import Executor
from binshift.model import Worker
from binshift.spark.jobs.watch import JobWatch
from binshift.spark.session.executors import location
from binshift.spark.session.jvm import Jvm
from binshift.spark.session.standing_calls import StandingCalls
from binshift.spark.tasks.background_function import RoundsFunction
from binshift.spark.tasks.standing_function import StandingFunction
from binshift.spark.tasks.task import Place

log = logging.getLogger(__name__)

END_SECONDS_MAX = 5.0
"""How long tasks may take to end by themselves."""


@dataclass
class StandingMembers:
    """The standing tasks of one kind, of one query.

    Attributes:
        spark: a session with the conf of epochs.
        jvm: binshift's Java classes.
        watch: ends tasks whose executors are gone.
        kind: "standing" or "rounds"; with the query's term, it names the driver's endpoint and tags the jobs.
        query: its name.
        term: of its driver.
        cores: that an executor must have for a standing task.
        function: what the Python worker of a place runs.
    """

    spark: SparkSession
    jvm: Jvm
    watch: JobWatch
    kind: str
    query: str
    term: int
    cores: int
    function: Callable[[Place], StandingFunction | RoundsFunction]
    _calls: StandingCalls | None = None
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    @property
    def calls(self) -> StandingCalls:
        """The driver's end."""
        if self._calls is None:
            self._calls = StandingCalls.open(self.jvm, self._tag)
        return self._calls

    @property
    def _tag(self) -> str:
        return f"binshift-{self.kind}-{self.query}-{self.term}"

    def start(self, on: Mapping[Worker, Executor]) -> None:
        """Start a standing task on each of these executors that has none and has a task slot for it."""
        with self._lock:
            if self._closed:
                return
            for worker, executor in on.items():
                if executor.id not in self._threads and executor.cores >= self.cores:
                    self._begin(self.calls, worker, executor)

    def _begin(self, calls: StandingCalls, worker: Worker, executor: Executor) -> None:
        function = self.function(Place(worker, executor.host))

        def run() -> None:
            context = self.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", f"binshift-{self.kind}-{self.query}")
            context.addJobTag(self._tag)
            reason = "Worker lost: its standing task has ended"
            try:  # if a worker is shut down, Spark has its task wait for another executor: the watch cancels it
                with self.watch.over(f"{self.kind}-{executor.id}", {worker: executor}):
                    task = calls.task(self.spark, executor.id, location(executor))
                    task.mapInArrow(function, "id long").write.format("noop").mode("append").save()
            except Exception as error:  # outermost frame of a thread: what waits for the task gets it
                reason = str(error)
                log.debug("the standing task of worker %s ended: %s", worker, error)
            with self._lock:
                self._threads.pop(executor.id, None)
                if not self._closed:
                    calls.driver.lost(executor.id, reason)

        target = inheritable_thread_target(self.spark)(run)
        thread = threading.Thread(target=target, name=f"binshift-{self.kind}-{worker}", daemon=True)
        self._threads[executor.id] = thread
        thread.start()

    def are_ready(self, executors: Iterable[Executor], seconds: float = 0.0) -> bool:
        """Whether the tasks of all of them wait for an order, or do so within some seconds; a task that has ended is not waited for."""
        return self._calls is not None and self._calls.are_ready({each.id for each in executors}, seconds)

    def end(self) -> None:
        """No task begins any more, and all end after their orders."""
        with self._lock:
            self._closed = True
            if self._calls is not None:
                self._calls.driver.end()

    def close(self) -> None:
        """End all of them, and wait until they have."""
        if self._calls is None:
            self._closed = True
            return
        try:
            self.end()
            deadline = time.monotonic() + END_SECONDS_MAX
            for thread in list(self._threads.values()):
                thread.join(max(0.0, deadline - time.monotonic()))
            if self._threads:
                self.spark.sparkContext.cancelJobsWithTag(self._tag)
            self._calls.driver.close()
        except (Py4JError, AttributeError) as error:  # Spark may have ended
            log.debug("standing tasks could not be ended: %s", error)
