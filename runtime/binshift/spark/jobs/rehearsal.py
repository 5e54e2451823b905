"""Rehearsals: runs of a program with made-up rows on executors that own no bins yet; they end where S would begin.

See `warmup` for what a task does instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from binshift.engine.ports import Executor
from binshift.errors import Retryable
from binshift.model import Term, Worker
from binshift.routing import Route
from binshift.spark.jobs.pinning import PinnedRun
from binshift.spark.jobs.watch import JobWatch
from binshift.spark.plan.pipeline import CompiledStage, Pipeline
from binshift.spark.plan.stage import arrow_schema
from binshift.spark.session.failures import meaning
from binshift.spark.session.jvm import Jvm, install
from binshift.spark.tasks.task import Environment, Place
from binshift.spark.tasks.warmup import (
    TASKS_PER_WORKER,
    NothingStored,
    WarmFunction,
    runs_python,
    synthetic_rows,
)

log = logging.getLogger(__name__)


class Rehearsal:
    """Rehearses a program.

    Args:
        spark: a session with the conf of epochs.
        pipeline: the compiled program.
        jvm: binshift's Java classes.
        environment: what tasks need.
        watch: cancels a job whose executors are gone.
        term: the driver's.
    """

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, jvm: Jvm, environment: Environment, watch: JobWatch, term: Term
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._jvm = jvm
        self._environment = environment
        self._watch = watch
        self._term = term
        self._rows = synthetic_rows(spark, pipeline.source.schema)
        self._count = 0

    def __call__(self, on: Mapping[Worker, Executor], times: int) -> None:
        """Rehearse so many times.

        Raises:
            Retryable: an executor was lost.
            UserFunctionFailed: the program cannot be loaded there.
        """
        install(self._spark)  # the classes for this thread's plans, which Spark compiles in the driver, too
        for _ in range(times):
            try:
                self._once(on)
            except Retryable:
                raise
            except Exception as error:  # the user's expressions may reject made-up values; use no rows
                if not self._rows.head(1):
                    raise
                log.info("rehearsing without rows: %s", error)
                self._rows = self._no_rows()
                self._once(on)

    @meaning()
    def _once(self, on: Mapping[Worker, Executor]) -> None:
        workers = tuple(sorted(on)) * TASKS_PER_WORKER
        self._count += 1
        # One task of each worker gets rows: bins belong to workers, not to tasks.
        route = Route.initial(self._environment.bins, sorted(on))
        rows = self._no_rows() if any(map(runs_python, self._first(route, workers))) else self._rows
        token = f"{self._term}.{self._count}"

        def warm(stage: CompiledStage, places: tuple[Place, ...]) -> WarmFunction:
            return WarmFunction(places, self._environment, stage.name, stage.pickled, token)

        def nothing_stored(stage: CompiledStage, places: tuple[Place, ...]) -> NothingStored:
            hole, _ = stage.read(self._pipeline.templates)
            return NothingStored(arrow_schema(self._spark, hole.schema))

        with self._watch.over("rehearsal", on), ExitStack() as shared:
            run = PinnedRun(self._jvm, route, workers, on, shared, time_ms=0)
            run.result(self._pipeline, rows, warm, nothing_stored).write.format("noop").mode("append").save()

    def _first(self, route: Route, workers: tuple[Worker, ...]) -> Iterator[DataFrame]:
        """The parts of the program that read the batch; what comes later gets no rows in a rehearsal."""
        pipeline = self._pipeline
        filling = {stage.merged: stage.merged for stage in pipeline.stages} | {pipeline.batch: self._rows}
        for template in (*(stage.routed(route, workers) for stage in pipeline.stages), pipeline.result):
            if pipeline.reads_batch(template):
                yield pipeline.fill(template, filling, 0)

    def _no_rows(self) -> DataFrame:
        return self._spark.createDataFrame([], self._pipeline.source.schema)
