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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from binshift import failpoints
from binshift.errors import EpochFailed, LogDamaged, NeedsBringUp, Retryable, TaskFailed
from binshift.model import Epoch, Worker
from binshift.protocol.coordinator import Coordinator
from binshift.protocol.epochplan import EpochPlan
from binshift.protocol.spec import EpochSpec, Summary
from binshift.protocol.underway import Part, UnderWay
from binshift.spark import conf
from binshift.spark.collecting import collecting
from binshift.spark.executors import Executor, ExecutorView
from binshift.spark.failures import interpret, raised
from binshift.spark.jvm import Jvm
from binshift.spark.offsets import BatchOffsets
from binshift.spark.stage import Stage
from binshift.spark.task import Environment, EpochFunction, Place, pickled
from binshift.spark.timings import TIMINGS_KEPT, EpochTimings, timings_of
from binshift.spark.watch import JobWatch

log = logging.getLogger(__name__)

EPOCH_POOL = "binshift-epoch"
EXECUTOR_POLL_SECONDS = 0.05
FENCE_CHECK_SECONDS = 2.0
"""A driver that took so long to plan may have slept meanwhile, and been replaced: it looks before it lets the sink write."""
RETRY_SECONDS_MAX = 5.0
STOP_SECONDS_MAX = 60.0
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
        sink: writes the result; one action that takes every row.
        watch: cancels a run whose executors are gone.
        lost: gives the bins of workers that stay away to those that are there.
        owe: has Spark run one more epoch, also where it runs what is available and then ends.
        attempts_max: runs of one epoch before the query fails.
        executor_wait_seconds: how long an epoch waits for executors when there is nobody else.
        lost_worker_seconds: how long it waits for one before others take over its bins.
        in_epoch: set while an epoch runs.
        under_way: the epoch that runs, for those who look on; None between epochs.
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
    sink: Callable[[DataFrame, Epoch], None]
    watch: JobWatch
    lost: Callable[[Sequence[Worker], Sequence[Worker]], object]
    owe: Callable[[], None]
    attempts_max: int = 20
    executor_wait_seconds: float = 60.0
    lost_worker_seconds: float = 30.0
    in_epoch: threading.Event = field(default_factory=threading.Event)
    under_way: UnderWay | None = None
    timings: deque[EpochTimings] = field(default_factory=lambda: deque(maxlen=TIMINGS_KEPT))
    stopping: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    _running: threading.Lock = field(default_factory=threading.Lock)
    _seen: dict[Worker, Executor] = field(default_factory=dict)
    _operator: bytes = b""
    _trouble: str = ""
    _task_failures: int = 0
    _prepared: bool = False

    def epoch(self, batch: DataFrame, batch_id: int) -> None:
        """What `foreachBatch` calls. Errors leave here short and typed."""
        with self._running:
            if not self.stopping.is_set():
                self._one(batch, Epoch(batch_id))
                return
        self.jvm.await_interrupt(STOP_SECONDS_MAX)
        raise EpochFailed(f"the query is being stopped {INTERRUPTED}")

    def _one(self, batch: DataFrame, epoch: Epoch) -> None:
        self.in_epoch.set()
        try:
            self._epoch(batch, epoch)
            if self.coordinator.watermark_moved():  # what Spark calls a batch without data ends what is over
                self.owe()
            failpoints.reached("epoch.recorded")
        except Exception as error:  # the edge towards Spark, which shows only text: keep the error itself
            self.error = error
            raise
        finally:
            self.under_way = None
            self.in_epoch.clear()

    def quiesce(self) -> None:
        """Let the running epoch end, and begin no other."""
        self.stopping.set()
        with self._running:
            pass

    def _epoch(self, batch: DataFrame, epoch: Epoch) -> None:
        started, begun = time.perf_counter(), UnderWay(epoch, time.time())
        self.under_way = begun
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", EPOCH_POOL)
        if not self._prepared:
            for key, value in conf.EPOCH.items():  # all batches of a stream share one session, cloned from the user's
                batch.sparkSession.conf.set(key, value)
            self._prepared = True
        offsets, moving = self._read_offsets(epoch), self.coordinator.moving
        plan = self.coordinator.plan(epoch, offsets.digest, offsets.batch_time_ms, tuple(sorted(self.view.executors())))
        bring_up, self._task_failures = frozenset[Worker](), 0
        for run in range(self.attempts_max):
            self.under_way = begun.at(Part.EXECUTORS, run)
            plan, executors = self._await_executors(self.coordinator.again(plan))
            bring_up |= {w for w in plan.workers if self._seen.get(w) != executors[w]}
            try:
                self.under_way = begun.at(Part.JOB, run)
                seconds, summaries = self._run(batch, plan, run, executors, bring_up)
                record_started = time.perf_counter()
                self.under_way = begun.at(Part.RECORD, run)
                self.coordinator.commit(plan, summaries)
            except Exception as error:  # every kind: what it means is decided here, in one place
                plan = self._failed(plan, run, interpret(error), error)
                self._go_on(plan, "a run of it failed")
                bring_up |= frozenset(plan.workers)
                self.stopping.wait(_pause(run))
                continue
            self._seen.update({w: executors[w] for w in plan.workers})
            timings = timings_of(plan, run, summaries, seconds, record_started, started)
            self.timings.append(replace(timings, moving=moving or self.coordinator.moving))
            self.coordinator.measured(timings.seconds["total"], plan)
            return
        raise EpochFailed(f"epoch {epoch} failed {self.attempts_max} times, the last time because {self._trouble}")

    def _read_offsets(self, epoch: Epoch) -> BatchOffsets:
        """Of the epoch's input; tried as often as an epoch is run, as nothing is lost while a disk or a store is away."""
        for run in range(self.attempts_max):
            try:
                return self.offsets(epoch)
            except Retryable as error:
                self._trouble = str(error)
                log.warning("epoch %s cannot begin: %s", epoch, error)
            if self.stopping.wait(_pause(run)):
                break
        raise EpochFailed(f"epoch {epoch} could not begin: {self._trouble}")

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
        log.log(level, "epoch run failed; running it again", extra={"epoch": plan.epoch, "run": run})
        log.log(level, "epoch %s, run %s: %s", plan.epoch, run, meaning)
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
        with collecting(self.spark.sparkContext) as collected:
            result = self._result(batch, plan, specs, executors, collected)
            planned = time.perf_counter()
            if planned - started > FENCE_CHECK_SECONDS:
                self.coordinator.check_newest()
            with self.watch.over("epoch", {w: executors[w] for w in plan.workers}):
                self.sink(result, plan.epoch)
            seconds = {"plan": planned - started, "job": time.perf_counter() - planned}
            return seconds, [each for each in collected.value if isinstance(each, Summary)]

    def _result(
        self,
        batch: DataFrame,
        plan: EpochPlan,
        specs: tuple[EpochSpec, ...],
        executors: Mapping[Worker, Executor],
        collected: object,
    ) -> DataFrame:
        routed = self.stage.route(self._kept_off_cold_workers(batch, executors), plan.route, plan.workers)
        pinned = self.jvm.pinned(routed, [executors[w].location for w in plan.workers])
        places = tuple(Place(w, executors[w].host) for w in plan.workers)
        if not self._operator:
            self._operator = pickled(self.stage.operator)
        function = EpochFunction(specs, places, self.environment, self._operator, collected)  # type: ignore[arg-type]
        return self.stage.finish(pinned.mapInArrow(function, self.stage.merged_schema))

    def _kept_off_cold_workers(self, batch: DataFrame, executors: Mapping[Worker, Executor]) -> DataFrame:
        """The batch, computed by workers that are warm: on a new executor the first tasks take seconds.

        Also while cold workers are only expected: one that registers between this look and the job's last stage would
        be given a task at once.
        """
        warm, expected = self.coordinator.movement.warm, self.coordinator.movement.cold()
        if (executors.keys() <= warm and not expected) or not executors.keys() & warm:
            return batch
        return self.jvm.pinned(batch, [executors[w].location for w in sorted(executors.keys() & warm)])

    def _await_executors(self, plan: EpochPlan) -> tuple[EpochPlan, Mapping[Worker, Executor]]:
        """All executors there are; waits for those of the plan's workers, and plans without them if they stay away.

        Raises:
            EpochFailed: they did not come back in time, and there is nobody to take over.
        """
        started = time.monotonic()
        while True:
            executors = self.view.executors()
            missing = [w for w in plan.workers if w not in executors]
            if not missing:
                return plan, executors
            self._go_on(plan, f"worker {missing[0]} has no executor")
            waited = time.monotonic() - started
            # A replay has the workers of its record.
            if waited > self.lost_worker_seconds and executors and plan.replay is None:
                plan, started = self._without(missing, plan, tuple(sorted(executors))), time.monotonic()
            elif waited > self.executor_wait_seconds + self.lost_worker_seconds:
                raise EpochFailed(
                    f"no executor for worker {missing[0]} within {waited:.0f} s; registered are {sorted(executors)}"
                )
            time.sleep(EXECUTOR_POLL_SECONDS)

    def _without(self, missing: Sequence[Worker], plan: EpochPlan, alive: tuple[Worker, ...]) -> EpochPlan:
        log.warning("workers %s stay away: %s take over their bins", missing, list(alive))
        self.coordinator.abandoned(plan)
        self.lost(missing, alive)
        for worker in missing:
            self._seen.pop(worker, None)
        return self.coordinator.plan(plan.epoch, plan.offsets_hash, plan.batch_time_ms, alive)


def _pause(run: int) -> float:
    """Seconds between two runs of an epoch: none after the first, then longer and longer.

    >>> [_pause(run) for run in (0, 1, 4, 19)]
    [0.0, 0.1, 0.8, 5.0]
    """
    return min(0.05 * 2.0**run, RETRY_SECONDS_MAX) if run else 0.0
