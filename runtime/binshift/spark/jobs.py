"""The engine's jobs as Spark jobs, one each, pinned worker by worker.

An epoch is the plan F -> exchange -> S -> the user's further calls -> sink. Spark itself retries nothing, and errors leave this
module as what they mean (`failures`). Background rounds and rehearsals run in a session of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from binshift.engine.epoch_plan import EpochPlan
from binshift.engine.ports import Executor, Placement
from binshift.errors import Retryable
from binshift.model import Epoch, Term, Worker
from binshift.routing import Route
from binshift.spark import conf
from binshift.spark.collecting import collecting, handed
from binshift.spark.executors import location
from binshift.spark.failures import classify, reraise_as
from binshift.spark.jvm import Jvm
from binshift.spark.output import Output
from binshift.spark.stage import Stage
from binshift.spark.task import BackgroundFunction, Environment, EpochFunction, Place, pickled
from binshift.spark.warmup import REHEARSALS, TASKS_PER_WORKER, WarmFunction, runs_python, synthetic_rows
from binshift.spark.watch import JobWatch
from binshift.worker.messages import BackgroundReport, BackgroundSpec, EpochSpec, Summary

log = logging.getLogger(__name__)

EPOCH_POOL = "binshift-epoch"
BACKGROUND_POOL = "binshift-background"


@dataclass
class SparkJobs:
    """The jobs of one query; see `binshift.engine.ports.Jobs`.

    Attributes:
        spark: the user's session.
        stage: the stateful operator as Catalyst sees it.
        operator: its name.
        schema: the stream's schema, for rehearsals.
        jvm: binshift's Java classes.
        environment: what tasks need.
        sink: writes the result, as of the batch's time, in one action that takes every row, and publishes it.
        watch: cancels a job whose executors are gone.
        term: the driver's.
    """

    spark: SparkSession
    stage: Stage
    operator: str
    schema: StructType
    jvm: Jvm
    environment: Environment
    sink: Output
    watch: JobWatch
    term: Term
    _beside: SparkSession = field(init=False)
    _synthetic_rows: DataFrame = field(init=False)
    _pickled: bytes = b""
    _rehearsals: int = 0
    _prepared: bool = False

    def __post_init__(self) -> None:
        self._beside = self.jvm.clone_session(self.spark)
        for key, value in conf.EPOCH.items():
            self._beside.conf.set(key, value)
        self._synthetic_rows = synthetic_rows(self._beside, self.schema)

    def use_pool(self, name: str) -> None:
        """Run this thread's jobs in the query's pool of that name."""
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"{name}-{self.environment.query}")

    def working(self) -> bool:
        """See `Jobs`."""
        return self.watch.working("epoch")

    def publish(self, epoch: Epoch) -> None:
        """See `Jobs`."""
        self.sink.publish(epoch)

    # ---------------------------------------------------------------------------------------------------------- epochs

    def epoch(
        self,
        batch: DataFrame,
        plan: EpochPlan,
        specs: Sequence[EpochSpec],
        on: Placement,
        ready: Callable[[], None],
    ) -> Sequence[Summary]:
        """See `Jobs`."""
        try:
            return self._epoch(batch, plan, specs, on, ready)
        except Exception as error:  # any error: the engine gets its meaning
            _raise_meaning(error)

    def _epoch(
        self,
        batch: DataFrame,
        plan: EpochPlan,
        specs: Sequence[EpochSpec],
        on: Placement,
        ready: Callable[[], None],
    ) -> Sequence[Summary]:
        self.use_pool(EPOCH_POOL)
        if not self._prepared:
            for key, value in conf.EPOCH.items():  # all batches of a stream share one session, cloned from the user's
                batch.sparkSession.conf.set(key, value)
            self._prepared = True
        needed = {worker: each for worker, each in on.alive.items() if each in on.parts.values()}
        with collecting(self.spark.sparkContext) as collected:
            read = self.jvm.pin(batch, [location(each) for each in on.readers]) if on.readers else batch
            result = self._result(read, plan, specs, on.parts, collected)
            ready()
            with self.watch.over("epoch", needed):
                self.sink(result, plan.epoch, plan.batch.batch_time_ms)
            return [each for each in collected.value if isinstance(each, Summary)]

    def _result(
        self,
        batch: DataFrame,
        plan: EpochPlan,
        specs: Sequence[EpochSpec],
        on: Mapping[Worker, Executor],
        collected: Accumulator[list[object]],
    ) -> DataFrame:
        routed = self.jvm.at(self.stage.route(batch, plan.route, plan.workers), plan.batch.batch_time_ms)
        pinned, places = self._placed(routed, plan.workers, on)
        function = EpochFunction(tuple(specs), places, self.environment, self._operator(), collected)
        return self.stage.finish(
            pinned.mapInArrow(handed(self.spark.sparkContext, function, collected), self.stage.merged_schema)
        )

    def _placed(
        self, frame: DataFrame, workers: Sequence[Worker], on: Mapping[Worker, Executor]
    ) -> tuple[DataFrame, tuple[Place, ...]]:
        """The frame with its partitions pinned to the executors of these workers, and the place expected by each task."""
        pinned = self.jvm.pin(frame, [location(on[worker]) for worker in workers])
        return pinned, tuple(Place(worker, on[worker].host) for worker in workers)

    def _operator(self) -> bytes:
        if not self._pickled:
            self._pickled = pickled(self.stage.operator)
        return self._pickled

    # ------------------------------------------------------------------------------------------------------ background

    def background(
        self,
        specs: Sequence[BackgroundSpec],
        on: Mapping[Worker, Executor],
        report: Callable[[BackgroundReport], None],
    ) -> None:
        """See `Jobs`."""
        try:
            self._background(specs, on, report)
        except Exception as error:  # any error: the engine gets its meaning
            _raise_meaning(error)

    def _background(
        self,
        specs: Sequence[BackgroundSpec],
        on: Mapping[Worker, Executor],
        report: Callable[[BackgroundReport], None],
    ) -> None:
        base = self._beside.range(0, len(specs), 1, len(specs))
        pinned, places = self._placed(base, [spec.worker for spec in specs], on)
        with collecting(self._beside.sparkContext) as collected:
            function = BackgroundFunction(tuple(specs), places, self.environment, collected)
            small = handed(self._beside.sparkContext, function, collected)
            try:
                with self.watch.over("round", on):
                    pinned.mapInArrow(small, "id long").write.format("noop").mode("append").save()
            finally:
                for each in collected.value:
                    if isinstance(each, BackgroundReport):
                        report(each)

    def rehearse(self, on: Mapping[Worker, Executor]) -> None:
        """See `Jobs`: epochs with made-up rows that end where S would begin (see `warmup`).

        Raises:
            Retryable: an executor was lost.
            UserFunctionFailed: the program cannot be loaded there.
        """
        for _ in range(REHEARSALS):
            try:
                self._rehearse(on)
            except Retryable:
                raise
            except Exception as error:  # the user's expressions may reject made-up values; use no rows
                if not self._synthetic_rows.head(1):
                    raise
                log.info("rehearsing without rows: %s", error)
                self._synthetic_rows = self._beside.createDataFrame([], self.schema)
                self._rehearse(on)

    def _rehearse(self, on: Mapping[Worker, Executor]) -> None:
        try:
            self._rehearsal(on, self._synthetic_rows)
        except Exception as error:  # any error: the engine gets its meaning instead of a Java trace
            _raise_meaning(error)

    def _rehearsal(self, on: Mapping[Worker, Executor], rows: DataFrame) -> None:
        workers = tuple(sorted(on)) * TASKS_PER_WORKER
        self._rehearsals += 1
        # One task of each worker gets rows: bins belong to workers, not to tasks.
        route = Route.initial(self.environment.bins, sorted(on))
        routed = self.stage.route(rows, route, workers)
        if runs_python(routed):
            routed = self.stage.route(self._beside.createDataFrame([], self.schema), route, workers)
        pinned, places = self._placed(routed, workers, on)
        token = f"{self.term}.{self._rehearsals}"
        function: Any = WarmFunction(places, self.environment, self.operator, self._operator(), token)
        with collecting(self._beside.sparkContext) as nothing, self.watch.over("rehearsal", on):
            merged = pinned.mapInArrow(handed(self._beside.sparkContext, function, nothing), self.stage.merged_schema)
            self.stage.finish(merged).write.format("noop").mode("append").save()


def _raise_meaning(error: Exception) -> NoReturn:
    reraise_as(classify(error), error)
