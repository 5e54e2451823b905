"""One run of a compiled program: its templates filled in, its tasks pinned to the executors of their workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from binshift.engine.ports import Executor
from binshift.model import Worker
from binshift.routing import Route
from binshift.spark.jobs.collecting import handed
from binshift.spark.plan.pipeline import CompiledStage, Pipeline
from binshift.spark.plan.template import Filling
from binshift.spark.session.executors import location
from binshift.spark.session.jvm import Jvm
from binshift.spark.tasks.task import Place

Function = Callable[[CompiledStage, tuple[Place, ...]], Any]
"""Makes what runs in the tasks of a stage, one for each of the places: S, or what stands in for it."""


@dataclass(frozen=True)
class PinnedRun:
    """One run.

    Attributes:
        jvm: pins partitions.
        route: the owner of each bin.
        workers: of the tasks, in the order of the partitions.
        on: their executors.
        shared: releases functions, and rows that were kept for several readers.
        time_ms: the batch's time, milliseconds since 1970.
        first: whether it is a run of the first epoch.
        ran: gets the frames with the program's stateless parts behind the batch.
    """

    jvm: Jvm
    route: Route
    workers: tuple[Worker, ...]
    on: Mapping[Worker, Executor]
    shared: ExitStack
    time_ms: int
    first: bool = False
    ran: list[DataFrame] = field(default_factory=list)

    def result(self, pipeline: Pipeline, rows: DataFrame, function: Function, read: Function) -> DataFrame:
        """The result of a program over ``rows``, with a function in the place of each S, and one that reads the state before it."""

        def kept(hole: DataFrame, frame: DataFrame) -> DataFrame:
            if hole in pipeline.drained:
                return frame.localCheckpoint(eager=True)
            if hole in pipeline.shared:
                self.shared.callback(frame.persist().unpersist)
            return frame

        filling = {pipeline.batch: kept(pipeline.batch, rows)}
        for stage in pipeline.stages:
            places, given = self._places(), self._routed(pipeline, stage, filling)
            if stage.stage.read_ahead is not None:
                hole, applied = stage.read(pipeline.templates)
                found = self._mapped(given, read(stage, places), hole.schema)
                given = pipeline.fill(applied, {hole: found}, self.time_ms)
            filling[stage.merged] = kept(
                stage.merged, self._mapped(given, function(stage, places), stage.stage.merged_schema)
            )
        result = pipeline.fill(pipeline.result, filling, self.time_ms)
        self.ran.append(result)
        return result

    def _routed(self, pipeline: Pipeline, stage: CompiledStage, filling: Filling) -> DataFrame:
        """The rows of a stage, pinned."""
        template = stage.routed(self.route, self.workers, first=self.first)
        locations = [location(self.on[worker]) for worker in self.workers]
        if not pipeline.is_observed:
            return self.jvm.pin_filled(template, list(filling.items()), self.time_ms, locations)
        self.ran.append(pipeline.fill(template, filling, self.time_ms))
        return self.jvm.pin(self.ran[-1], locations)

    def _places(self) -> tuple[Place, ...]:
        return tuple(Place(worker, self.on[worker].host) for worker in self.workers)

    def _mapped(self, rows: DataFrame, function: Any, schema: StructType) -> DataFrame:
        return self.jvm.map_in_arrow(rows, handed(rows.sparkSession.sparkContext, function, self.shared), schema)


def placed(
    jvm: Jvm, frame: DataFrame, workers: Sequence[Worker], on: Mapping[Worker, Executor]
) -> tuple[DataFrame, tuple[Place, ...]]:
    """The frame with its partitions pinned to the executors of these workers, and the place expected by each task."""
    pinned = jvm.pin(frame, [location(on[worker]) for worker in workers])
    return pinned, tuple(Place(worker, on[worker].host) for worker in workers)
