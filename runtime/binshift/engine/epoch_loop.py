"""Runs epochs, one batch of the stream after the other: plan, run, record, publish.

One call is one epoch, and returns only when its record exists. A run is all or nothing: whatever goes wrong in it (an
executor dies, a task runs on the wrong executor or its store is behind), the executors are read again and the whole epoch runs
again as the next run, a bounded number of times. `Jobs` defines what a run is; nothing below the loop retries.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic

from binshift import failpoints
from binshift.engine.coordinator import Coordinator
from binshift.engine.epoch_plan import BatchOffsets, EpochPlan, RunTasks
from binshift.engine.epoch_progress import EpochProgress, EpochStage
from binshift.engine.executor_wait import EpochLimits, ExecutorWait, Lost, hosts
from binshift.engine.ports import Batch, Executor, Placement, Ports
from binshift.engine.timings import TIMINGS_KEPT, EpochTimings, timings_of
from binshift.errors import EpochFailed, LogDamaged, NeedsBringUp, Retryable, TaskFailed
from binshift.model import Epoch, Worker
from binshift.worker.messages import Summary

log = logging.getLogger(__name__)

FENCE_CHECK_SECONDS = 2.0
"""A driver that took so long to plan may have been suspended and replaced: it checks this before it lets the sink write."""
RETRY_SECONDS_MAX = 5.0
STOP_SECONDS_MAX = 60.0
STOP_POLL_SECONDS = 0.2
TASK_FAILURES_MAX = 4
"""Of one epoch, before the query ends: as often as Spark by itself (``spark.task.maxFailures``) has one task fail."""


@dataclass
class EpochLoop(Generic[Batch]):
    """The epochs of one query, in one driver term.

    Attributes:
        coordinator: decides routes, writes records.
        ports: executors, jobs, the stream and a clock.
        lost: gives the bins of lost workers to the others; `TargetController.replace_lost`.
        limits: of retries and waits.
        in_epoch: set while an epoch runs.
        progress: the epoch that runs, for readers on other threads; None between epochs.
        runs_failed: runs of epochs that were made again, as were tries to begin one.
        timings: of the newest epochs.
        stopping: set when no further epoch must begin.
        error: what ended the query, if an epoch did.
    """

    coordinator: Coordinator
    ports: Ports[Batch]
    lost: Lost
    limits: EpochLimits = field(default_factory=EpochLimits)
    in_epoch: threading.Event = field(default_factory=threading.Event)
    progress: EpochProgress | None = None
    runs_failed: int = 0
    timings: deque[EpochTimings] = field(default_factory=lambda: deque(maxlen=TIMINGS_KEPT))
    stopping: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    _running: threading.Lock = field(default_factory=threading.Lock)
    _thread: int | None = None
    _seen: dict[Worker, Executor] = field(default_factory=dict)
    _trouble: str = ""
    _task_failures: int = 0

    def run(self, batch: Batch, epoch: Epoch) -> bool:
        """Run one epoch until its record exists; False if none begins any more, as the query is being stopped.

        Raises:
            EpochFailed: every run failed, or executors are missing.
            TaskFailed: a task failed too often.
            GiveUp: what trying again cannot help.
        """
        with self._running:
            if self.stopping.is_set():
                return False
            self._thread = threading.get_ident()
            try:
                self._one(batch, epoch)
            finally:
                self._thread = None
            return True

    def _one(self, batch: Batch, epoch: Epoch) -> None:
        self.in_epoch.set()
        try:
            self._epoch(batch, epoch)
            failpoints.reached("epoch.recorded")
        except Exception as error:  # the edge towards the stream, which may show only text: keep the error itself
            self.error = error
            raise
        finally:
            self.progress = None
            self.in_epoch.clear()

    @property
    def within(self) -> bool:
        """Whether this is called by the running epoch itself, from the user's function."""
        return self._thread == threading.get_ident()

    def quiesce(self) -> bool:
        """Let the running epoch end, and begin no other; whether it has ended.

        The epoch is given up once no job has run for it for `STOP_SECONDS_MAX`: the user's function may be waiting for the
        caller.
        """
        self.stopping.set()
        idle_since = self.ports.clock()
        while not self._running.acquire(timeout=STOP_POLL_SECONDS):
            if self.ports.jobs.working():
                idle_since = self.ports.clock()
            elif self.ports.clock() - idle_since > STOP_SECONDS_MAX:
                return False
        self._running.release()
        return True

    def _epoch(self, batch: Batch, epoch: Epoch) -> None:
        started, begun = self.ports.clock(), EpochProgress(epoch, self.ports.clock.time())
        self.progress, self._trouble, self._task_failures = begun, "", 0
        offsets = self._read_offsets(begun)
        plan = self.coordinator.plan(epoch, offsets, sorted(self.ports.executors.alive()))
        moving = plan.moving
        executor_wait = ExecutorWait(self.coordinator, self.ports, self.lost, self.stopping, self.limits)
        bring_up = frozenset[Worker]()
        for run in range(self.limits.attempts_max):
            self.progress = begun.at(EpochStage.EXECUTORS, run, self._trouble)
            plan, executors = executor_wait.wait_for(plan, self._go_on)
            self._seen = {w: seen for w, seen in self._seen.items() if executors.get(w) == seen}
            bring_up |= frozenset(plan.needed) - self._seen.keys()
            try:
                self.progress = begun.at(EpochStage.JOB, run, self._trouble)
                seconds, summaries = self._run(batch, plan, run, executors, bring_up)
                recording, self.progress = self.ports.clock(), begun.at(EpochStage.RECORD, run, self._trouble)
                self.coordinator.commit(plan, summaries)
            except Exception as error:  # every kind: what follows from it is decided here, in one place
                plan = self._failed(plan, run, error)
                self.runs_failed += 1
                self._go_on(plan, "a run of it failed")
                bring_up |= frozenset(plan.workers)
                self.ports.clock.wait(self.stopping, _pause(run))
                continue
            self.ports.jobs.publish(epoch)
            self._seen.update({w: executors[w] for w in plan.needed})
            seconds |= {"record": self.ports.clock() - recording, "total": self.ports.clock() - started}
            timings = timings_of(plan, run, summaries, seconds, self.ports.clock.time())
            finished = self.coordinator.finish(plan, seconds["total"])
            self.timings.append(replace(timings, moving=moving or finished.moving))
            self._wake_stream(plan, finished.wake_at_ms)
            return
        raise EpochFailed(
            f"epoch {epoch} failed {self.limits.attempts_max} times, the last time because {self._trouble}"
        )

    def _read_offsets(self, begun: EpochProgress) -> BatchOffsets:
        """Of the epoch's input; tried as often as an epoch is run, as nothing is lost while a disk or a store is away."""
        for run in range(self.limits.attempts_max):
            try:
                return self.ports.batches.offsets(begun.epoch)
            except Retryable as error:
                self._trouble, self.runs_failed = str(error), self.runs_failed + 1
                self.progress = begun.at(EpochStage.PLAN, run + 1, self._trouble)
                log.warning("epoch %s cannot begin: %s", begun.epoch, error)
            if self.ports.clock.wait(self.stopping, _pause(run)):
                break
        raise EpochFailed(f"epoch {begun.epoch} could not begin: {self._trouble}")

    def _go_on(self, plan: EpochPlan, trouble: str) -> None:
        """Not for an epoch in trouble while the query stops: its executors may be stopping too, and it will come again.

        Raises:
            EpochFailed: the query is being stopped.
        """
        if self.stopping.is_set():
            self.coordinator.abandon(plan)
            raise EpochFailed(f"epoch {plan.epoch} is given up, as {trouble} and the query is being stopped")

    def _failed(self, plan: EpochPlan, run: int, error: Exception) -> EpochPlan:
        """The plan of the next run; raises what nothing can be done about."""
        self._task_failures += isinstance(error, TaskFailed)
        try:
            if not isinstance(error, Retryable | LogDamaged) or self._task_failures == TASK_FAILURES_MAX:
                raise error
            following = self.coordinator.replan(plan, error)
        except Exception:  # whatever ends the query
            self.coordinator.abandon(plan)
            raise
        if isinstance(error, Retryable):
            self._trouble = str(error)
            level = logging.INFO if isinstance(error, NeedsBringUp) else logging.WARNING
            log.log(level, "epoch %s, run %s failed and is made again: %s", plan.epoch, run, error)
        return following

    def _run(
        self, batch: Batch, plan: EpochPlan, run: int, executors: Mapping[Worker, Executor], bring_up: frozenset[Worker]
    ) -> tuple[dict[str, float], list[Summary]]:
        """One run: seconds by part, and what its tasks have sent."""
        started = self.ports.clock()
        failpoints.reached("flip.planned" if len(plan.moves) else "epoch.planned")
        tasks = plan.tasks(run, bring_up)
        parts = {w: executors[host] for w, host in hosts(plan, sorted(executors)).items()}
        planned: list[float] = []
        on = Placement(parts, executors, _readers(executors, tasks))
        summaries = self.ports.jobs.epoch(batch, plan, tasks.specs, on, lambda: planned.append(self._planned(started)))
        seconds = {"plan": planned[0] - started, "job": self.ports.clock() - planned[0]}
        return seconds, list(summaries)

    def _planned(self, started: float) -> float:
        """The job is planned: now, unless that took so long that another driver may have come."""
        now = self.ports.clock()
        if now - started > FENCE_CHECK_SECONDS:
            self.coordinator.check_newest()
        return now

    def _wake_stream(self, plan: EpochPlan, wake_at_ms: int | None) -> None:
        """An idle stream needs an epoch for a watermark that has moved, and for what is due later."""
        if (self.ports.batches.next_watermark_ms() or 0) > plan.batch.watermark_ms:
            self.ports.batches.wake(final=True)
        self.ports.batches.wake_at(wake_at_ms)


def _readers(executors: Mapping[Worker, Executor], tasks: RunTasks) -> tuple[Executor, ...]:
    """Warm workers, if there are others, compute the batch: on a new executor the first tasks take seconds.

    Also while cold workers are only expected: one that registers between this check and the job's last stage would
    be given a task at once.
    """
    if executors.keys() <= tasks.warm and not tasks.cold:
        return ()
    return tuple(executors[w] for w in sorted(executors.keys() & tasks.warm))


def _pause(run: int) -> float:
    """Seconds between two runs of an epoch: none after the first, then longer and longer.

    >>> [_pause(run) for run in (0, 1, 4, 19)]
    [0.0, 0.1, 0.8, 5.0]
    """
    return min(0.05 * 2.0**run, RETRY_SECONDS_MAX) if run else 0.0
