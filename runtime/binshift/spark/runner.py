"""Runs an epoch on Spark: the plan F -> exchange -> S -> the user's further part -> sink, pinned worker by worker.

One call of `foreachBatch` is one epoch, and returns only when its record exists. A run is all or nothing: whatever goes
wrong in it (an executor dies, a task finds itself elsewhere or its store behind), the job is cancelled, the executors
are read anew and the whole epoch runs again as the next run, a bounded number of times. Spark itself retries nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from binshift import failpoints
from binshift.engine.absence import hosts
from binshift.engine.coordinator import Coordinator
from binshift.engine.epochplan import EpochPlan
from binshift.engine.underway import Part, UnderWay
from binshift.errors import EpochFailed, LogDamaged, NeedsBringUp, Retryable, TaskFailed
from binshift.model import Epoch, Worker
from binshift.protocol.spec import EpochSpec, Summary
from binshift.spark import conf
from binshift.spark.attendance import Attendance
from binshift.spark.collecting import collecting, handed
from binshift.spark.executors import Executor, ExecutorView
from binshift.spark.failures import interpret, raised
from binshift.spark.jvm import Jvm
from binshift.spark.offsets import BatchOffsets
from binshift.spark.output import Output
from binshift.spark.stage import Stage
from binshift.spark.task import Environment, EpochFunction, Place, pickled
from binshift.spark.timings import TIMINGS_KEPT, EpochTimings, timings_of
from binshift.spark.watch import JobWatch

log = logging.getLogger(__name__)

EPOCH_POOL = "binshift-epoch"
FENCE_CHECK_SECONDS = 2.0
"""A driver that took so long to plan may have slept meanwhile, and been replaced: it looks before it lets the sink write."""
RETRY_SECONDS_MAX = 5.0
STOP_SECONDS_MAX = 60.0
STOP_POLL_SECONDS = 0.2
TASK_FAILURES_MAX = 4
"""Of one epoch, before the query ends: as often as Spark by itself (``spark.task.maxFailures``) has one task fail."""
INTERRUPTED = "(py4j.protocol.Py4JJavaError: An error occurred while calling sleep: java.lang.InterruptedException)"
"""By this text Spark knows that a function of `foreachBatch` ended because the query was stopped, and keeps its stack to itself.
It has to be short: Spark looks for it by a regular expression that takes a frame of Java's stack for each character after it."""


@dataclass
class Runner:
    """Carries epochs of one query.

    Attributes:
        coordinator: decides routes, writes records.
        stage: the stateful operator as Catalyst sees it.
        view: the live executors.
        jvm: our Java classes.
        environment: what tasks need.
        offsets: reads Spark's offset log.
        sink: writes the result, as of the batch's time, in one action that takes every row, and publishes it.
        watch: cancels a run whose executors are gone.
        attendance: waits for the executors of an epoch.
        owe: has Spark run one more epoch, also where it runs what is available and then ends, if the one that runs, with
            this watermark, has moved the watermark on.
        attempts_max: runs of one epoch before the query fails.
        in_epoch: set while an epoch runs.
        under_way: the epoch that runs, for those who look on; None between epochs.
        runs_failed: runs of epochs that were made again, as were tries to begin one.
        timings: of the newest epochs.
        stopping: set once no further epoch shall begin.
        error: what ended the query, if an epoch did.
    """

    spark: SparkSession
    coordinator: Coordinator
    stage: Stage
    view: ExecutorView
    jvm: Jvm
    environment: Environment
    offsets: Callable[[Epoch], BatchOffsets]
    sink: Output
    watch: JobWatch
    attendance: Attendance
    owe: Callable[[int], None]
    attempts_max: int = 20
    in_epoch: threading.Event = field(default_factory=threading.Event)
    under_way: UnderWay | None = None
    runs_failed: int = 0
    timings: deque[EpochTimings] = field(default_factory=lambda: deque(maxlen=TIMINGS_KEPT))
    stopping: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    _running: threading.Lock = field(default_factory=threading.Lock)
    _thread: int | None = None
    _seen: dict[Worker, Executor] = field(default_factory=dict)
    _operator: bytes = b""
    _trouble: str = ""
    _task_failures: int = 0
    _prepared: bool = False

    def epoch(self, batch: DataFrame, batch_id: int) -> None:
        """What `foreachBatch` calls. Errors leave here short and typed."""
        with self._running:
            if not self.stopping.is_set():
                self._thread = threading.get_ident()
                try:
                    self._one(batch, Epoch(batch_id))
                finally:
                    self._thread = None
                return
        self.jvm.await_interrupt(STOP_SECONDS_MAX)
        raise EpochFailed(f"the query is being stopped {INTERRUPTED}")

    def _one(self, batch: DataFrame, epoch: Epoch) -> None:
        self.in_epoch.set()
        try:
            self._epoch(batch, epoch)
            failpoints.reached("epoch.recorded")
        except Exception as error:  # the edge towards Spark, which shows only text: keep the error itself
            self.error = error
            raise
        finally:
            self.under_way = None
            self.in_epoch.clear()

    @property
    def within(self) -> bool:
        """Whether this is called by the running epoch itself, from the user's function."""
        return self._thread == threading.get_ident()

    def quiesce(self) -> bool:
        """Let the running epoch end, and begin no other; whether it has ended.

        The epoch is given up once Spark has run no job for it for `STOP_SECONDS_MAX`: the user's function may be waiting for
        the caller.
        """
        self.stopping.set()
        idle_since = time.monotonic()
        while not self._running.acquire(timeout=STOP_POLL_SECONDS):
            if self.watch.working("epoch"):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > STOP_SECONDS_MAX:
                return False
        self._running.release()
        return True

    def _epoch(self, batch: DataFrame, epoch: Epoch) -> None:
        started, begun = time.perf_counter(), UnderWay(epoch, time.time())
        self.under_way, self._trouble = begun, ""
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"{EPOCH_POOL}-{self.environment.query}")
        if not self._prepared:
            for key, value in conf.EPOCH.items():  # all batches of a stream share one session, cloned from the user's
                batch.sparkSession.conf.set(key, value)
            self._prepared = True
        offsets, moving = self._read_offsets(begun), self.coordinator.moving
        alive = tuple(sorted(self.view.executors()))
        plan = self.coordinator.plan(epoch, offsets.digest, offsets.batch_time_ms, offsets.watermark_ms, alive)
        bring_up, self._task_failures = frozenset[Worker](), 0
        for run in range(self.attempts_max):
            self.under_way = begun.at(Part.EXECUTORS, run, self._trouble)
            plan, executors = self.attendance.of(self.coordinator.again(plan), self._go_on)
            self._seen = {w: seen for w, seen in self._seen.items() if executors.get(w) == seen}
            bring_up |= frozenset(plan.needed) - self._seen.keys()
            try:
                self.under_way = begun.at(Part.JOB, run, self._trouble)
                seconds, summaries = self._run(batch, plan, run, executors, bring_up)
                record_started, self.under_way = time.perf_counter(), begun.at(Part.RECORD, run, self._trouble)
                self.coordinator.commit(plan, summaries)
            except Exception as error:  # every kind: what it means is decided here, in one place
                plan = self._failed(plan, run, interpret(error), error)
                self.runs_failed += 1
                self._go_on(plan, "a run of it failed")
                bring_up |= frozenset(plan.workers)
                self.stopping.wait(_pause(run))
                continue
            self.sink.publish(epoch)
            self._seen.update({w: executors[w] for w in plan.needed})
            timings = timings_of(plan, run, summaries, seconds, record_started, started)
            self.timings.append(replace(timings, moving=moving or self.coordinator.moving))
            self.coordinator.measured(timings.seconds["total"], plan)
            self.owe(plan.watermark_ms)
            return
        raise EpochFailed(f"epoch {epoch} failed {self.attempts_max} times, the last time because {self._trouble}")

    def _read_offsets(self, begun: UnderWay) -> BatchOffsets:
        """Of the epoch's input; tried as often as an epoch is run, as nothing is lost while a disk or a store is away."""
        for run in range(self.attempts_max):
            try:
                return self.offsets(begun.epoch)
            except Retryable as error:
                self._trouble, self.runs_failed = str(error), self.runs_failed + 1
                self.under_way = begun.at(Part.PLAN, run + 1, self._trouble)
                log.warning("epoch %s cannot begin: %s", begun.epoch, error)
            if self.stopping.wait(_pause(run)):
                break
        raise EpochFailed(f"epoch {begun.epoch} could not begin: {self._trouble}")

    def _go_on(self, plan: EpochPlan, trouble: str) -> None:
        """Not for an epoch in trouble while the query stops: its executors may be stopping too, and it will come again.

        Raises:
            EpochFailed: the query is being stopped.
        """
        if self.stopping.is_set():
            self.coordinator.abandoned(plan)
            raise EpochFailed(f"epoch {plan.epoch} is given up, as {trouble} and the query is being stopped")

    def _failed(self, plan: EpochPlan, run: int, meaning: Exception, error: Exception) -> EpochPlan:
        """The plan of the next run; raises what nothing can be done about."""
        if isinstance(meaning, LogDamaged):
            return self._do_without(plan, meaning)
        self._task_failures += isinstance(meaning, TaskFailed)
        if not isinstance(meaning, Retryable) or self._task_failures == TASK_FAILURES_MAX:
            self.coordinator.abandoned(plan)
            raised(meaning, error)
        self._trouble = str(meaning)
        level = logging.INFO if isinstance(meaning, NeedsBringUp) else logging.WARNING
        log.log(level, "epoch %s, run %s failed and is made again: %s", plan.epoch, run, meaning)
        return plan

    def _do_without(self, plan: EpochPlan, damage: LogDamaged) -> EpochPlan:
        try:
            return self.coordinator.do_without(plan, damage)
        except Retryable:  # the file will be met again
            return plan
        except LogDamaged:
            self.coordinator.abandoned(plan)
            raise

    def _run(
        self,
        batch: DataFrame,
        plan: EpochPlan,
        run: int,
        executors: Mapping[Worker, Executor],
        bring_up: frozenset[Worker],
    ) -> tuple[dict[str, float], list[Summary]]:
        """One run: build the job, have the sink take every row, return the tasks' summaries."""
        started = time.perf_counter()
        failpoints.reached("flip.planned" if len(plan.moves) else "epoch.planned")
        specs = self.coordinator.specs(plan, run, bring_up)
        on = {w: executors[host] for w, host in hosts(plan, sorted(executors)).items()}
        with collecting(self.spark.sparkContext) as collected:
            routed = self.stage.route(self._kept_off_cold_workers(batch, executors), plan.route, plan.workers)
            result = self._result(routed, plan, specs, on, collected)
            planned = time.perf_counter()
            if planned - started > FENCE_CHECK_SECONDS:
                self.coordinator.check_newest()
            with self.watch.over("epoch", {w: each for w, each in executors.items() if each in on.values()}):
                self.sink(result, plan.epoch, plan.batch_time_ms)
            seconds = {"plan": planned - started, "job": time.perf_counter() - planned}
            return seconds, [each for each in collected.value if isinstance(each, Summary)]

    def _result(
        self,
        routed: DataFrame,
        plan: EpochPlan,
        specs: tuple[EpochSpec, ...],
        on: Mapping[Worker, Executor],
        collected: object,
    ) -> DataFrame:
        pinned = self.jvm.pinned(self.jvm.at(routed, plan.batch_time_ms), [on[w].location for w in plan.workers])
        places = tuple(Place(w, on[w].host) for w in plan.workers)
        if not self._operator:
            self._operator = pickled(self.stage.operator)
        function = EpochFunction(specs, places, self.environment, self._operator, collected)  # type: ignore[arg-type]
        small = handed(self.spark.sparkContext, function, collected)  # type: ignore[arg-type]
        return self.stage.finish(pinned.mapInArrow(small, self.stage.merged_schema))

    def _kept_off_cold_workers(self, batch: DataFrame, executors: Mapping[Worker, Executor]) -> DataFrame:
        """The batch, computed by workers that are warm: on a new executor the first tasks take seconds.

        Also while cold workers are only expected: one that registers between this look and the job's last stage would
        be given a task at once.
        """
        warm, expected = self.coordinator.movement.warm, self.coordinator.movement.cold()
        if (executors.keys() <= warm and not expected) or not executors.keys() & warm:
            return batch
        return self.jvm.pinned(batch, [executors[w].location for w in sorted(executors.keys() & warm)])


def _pause(run: int) -> float:
    """Seconds between two runs of an epoch: none after the first, then longer and longer.

    >>> [_pause(run) for run in (0, 1, 4, 19)]
    [0.0, 0.1, 0.8, 5.0]
    """
    return min(0.05 * 2.0**run, RETRY_SECONDS_MAX) if run else 0.0
