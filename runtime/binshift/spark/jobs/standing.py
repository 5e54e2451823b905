"""Standing tasks: one on each executor, which run epochs as messages; a Spark job for each epoch costs more processor time.

A standing task is the one task of a Spark job that lasts as long as its executor, or the query. Orders pass over Spark's RPC, and rows over its block
transfer (see `StandingTask.java`): both are authenticated and encrypted as the conf has it. A run fails as a job would, with an error that the
engine understands, and the next run is a Spark job, unless an executor was lost.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from binshift.engine.epoch_plan import EpochPlan
from binshift.engine.ports import Placement
from binshift.errors import EpochFailed, TaskFailed
from binshift.model import BEFORE_FIRST, Epoch, Worker
from binshift.routing import Route
from binshift.spark.jobs.standing_members import StandingMembers
from binshift.spark.plan.catalyst import analyzed, contains
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.plan.routing_columns import Exchange
from binshift.spark.session.failures import classify
from binshift.spark.session.jvm import Jvm
from binshift.spark.session.standing_calls import StandingCalls
from binshift.spark.tasks.task import Environment
from binshift.worker.messages import EpochSpec, Summary

FAILURES_MAX = 3
MESSAGE_CHARACTERS = 300
BUSY_SECONDS_MAX = 1.0
"""How long the next run waits for tasks that carry out an order of a run in which an executor was lost."""
INTERRUPTED = "java.lang.InterruptedException"
"""Spark interrupts the stream's thread when the query is stopped."""
KEPT_BYTES, KEPT_BYTES_OF_ALL = 1 << 20, 64 << 20
"""Output of a task, and of all, that the driver takes with the answers; a result of such parts is read without a Spark job."""
REDUCED_SHARE_MAX, RECORDS_MIN = 0.75, 1 << 15
"""An aggregation begins before the exchange if that leaves at most this share of the records as rows, and a task has so many records."""
OPAQUE_NODES = ("MapInArrow", "MapInPandas", "MapPartitions", "Sample")
"""Nodes behind the last stage whose rows may differ from one time to the next."""


@dataclass
class StandingTasks:
    """The standing tasks of one query.

    Attributes:
        pipeline: the compiled program.
        jvm: binshift's Java classes.
        environment: what tasks need.
        members: the tasks.
        epochs: how many runs of epochs they have completed.
        busy: whether one is under way.
        able: whether the program has not met a stage that needs a Spark job.
        failures: how many runs in succession have failed; after `FAILURES_MAX`, every epoch is a job.
    """

    pipeline: Pipeline
    jvm: Jvm
    environment: Environment
    members: StandingMembers
    epochs: int = 0
    able: bool = True
    failures: int = 0
    busy: bool = False
    _routed: tuple[tuple[Route, tuple[Worker, ...]], Any] | None = None
    _early: dict[str, bool] = field(default_factory=dict)
    _lost: tuple[Epoch, int] | None = None

    @functools.cached_property
    def repeats(self) -> bool:
        """Whether what the program computes behind its last stage is the same each time."""
        plan = analyzed(self.pipeline.result)
        return bool(plan.deterministic()) and not contains(plan, OPAQUE_NODES)

    def ready(self, plan: EpochPlan, specs: Sequence[EpochSpec], on: Placement) -> bool:
        """Whether an epoch can run in standing tasks now. It starts missing ones.

        An executor without bins keeps its standing task. When it gets bins again, no epoch has to be a job. A run after a failed one is a job,
        unless an executor was lost in standing tasks: the other ones are fit, and can be in the middle of the failed run.
        """
        readers = on.readers or tuple(on.parts[worker] for worker in plan.workers)
        run = specs[0].fence.run
        parts = {worker: on.parts[worker] for worker in plan.workers}
        own = all(on.alive.get(worker) == executor for worker, executor in parts.items())
        again = run > 0 and self._lost != (plan.epoch, run - 1)
        if not self.able or not own or again or plan.epoch == BEFORE_FIRST + 1 or self.failures >= FAILURES_MAX:
            return False
        if not self.members.are_ready((*parts.values(), *readers), BUSY_SECONDS_MAX if run else 0.0):
            self.members.start(parts)
            return False
        return True

    def run(
        self, batch: DataFrame, plan: EpochPlan, specs: Sequence[EpochSpec], on: Placement
    ) -> tuple[DataFrame, list[Summary]] | None:
        """The result of an epoch, and its summaries; None where it needs a Spark job."""
        self.busy, self.failures = True, self.failures + 1
        try:
            owners = [on.parts[worker].id for worker in plan.workers]
            readers = [executor.id for executor in on.readers] or owners
            rows = self.members.calls.read(self.pipeline.batch, batch, readers) if self._once else batch
            found = None if rows is None else self._run(rows, plan, specs, readers, owners)
            if found is None:
                self._end_for_good()
            self.failures = 0
        except Py4JJavaError as error:
            meaning = classify(error)
            self._lost = (plan.epoch, specs[0].fence.run) if type(meaning) is EpochFailed else None
            if meaning is not error or INTERRUPTED in str(error):
                raise
            # What is wrong with standing tasks does not end a query: its next run is a job.
            raise TaskFailed(f"an epoch in standing tasks failed: {str(error)[:MESSAGE_CHARACTERS]}") from error
        finally:
            self.busy = False
        return found

    @property
    def _once(self) -> bool:
        """Whether the rows of a batch are computed before the stages, as several of them read them."""
        return self.pipeline.batch in self.pipeline.shared

    def _run(
        self,
        rows: DataFrame,
        plan: EpochPlan,
        specs: Sequence[EpochSpec],
        readers: Sequence[str],
        owners: Sequence[str],
    ) -> tuple[DataFrame, list[Summary]] | None:
        calls, kept = self.members.calls, min(KEPT_BYTES, KEPT_BYTES_OF_ALL // len(owners))
        filling, summaries, result = {self.pipeline.batch: rows}, list[Summary](), None
        for number, stage in enumerate(self.pipeline.stages):
            last = number == len(self.pipeline.stages) - 1
            read = stage.read(self.pipeline.templates) if stage.stage.read_ahead is not None else None
            found = calls.run(
                stage.routed_by_bin,
                list(filling.items()),
                readers,
                owners,
                self._route_of(calls, plan),
                _orders(stage.name, specs, reads=read is not None),
                stage.merged,
                read=read,
                later=self._once or number > 0,
                kept=kept if last else 0,
                early=self._early.get(stage.name, False),
            )
            if found is None:
                if number:  # S of an earlier stage has run: only another run can be a job
                    self._end_for_good()
                    raise TaskFailed(f"{stage.name} cannot run in a standing task, and the epoch runs again as a job")
                return None
            returned, answers = found
            summaries += self._noted(stage.name, answers)
            result = returned.filled(self.pipeline.result, stage.merged) if last else None
            if result is None:
                filling[stage.merged] = returned.frame()
        self.epochs += 1
        if result is None:
            result = self.pipeline.fill(self.pipeline.result, filling, plan.batch.batch_time_ms)
        return result, summaries

    def _noted(self, name: str, answers: Sequence[bytes]) -> list[Summary]:
        """What the tasks of a stage report, from which its next epoch learns."""
        reports: list[Summary] = [pickle.loads(each) for each in answers]  # noqa: S301 (from tasks, over Spark's RPC)
        self._early[name] = begins_early(reports)
        return reports

    def _route_of(self, calls: StandingCalls, plan: EpochPlan) -> Any:
        """The route of an epoch as tasks have it; made again when it changes."""
        case = plan.route, plan.workers
        if self._routed is None or self._routed[0] != case:
            self._routed = case, calls.route(Exchange.by_owner(*case).of_bin)
        return self._routed[1]

    def _end_for_good(self) -> None:
        """The program has a stage that needs a Spark job: so does every epoch from now on."""
        self.able = False
        self.members.end()


def _orders(name: str, specs: Sequence[EpochSpec], *, reads: bool) -> list[bytes]:
    """What the tasks of a stage get, by owner: for S, and then for what reads the state, if something does."""
    kinds = (False, True) if reads else (False,)
    return [pickle.dumps((spec, kind)) for spec in specs if spec.operator == name for kind in kinds]


def begins_early(reports: Sequence[Summary]) -> bool:
    """Whether a stage's aggregation is to begin before the exchange, after an epoch of which its tasks have reported this.

    It saves little where most records have a key of their own, and costs as much as the other half. A hot key makes the share of rows small, and
    stays work for all workers. In a short epoch, the table of each half takes longer to make than the records.
    """
    records, rows = sum(each.records_in for each in reports), sum(each.rows_in for each in reports)
    return rows <= REDUCED_SHARE_MAX * records and records >= RECORDS_MIN * len(reports)
