"""A query that begins with the state of one that Spark has run, and continues with Spark's next batch.

Spark's checkpoint is only read. `plan` reads it and compares it with the program: what cannot be adopted is refused before
anything is written. `Adoption.write` makes the log's first record: the state after Spark's last committed batch, as one delta for
each operator and worker, and copies offsets, watermark and what the sources keep into the new checkpoint. The record makes the
adoption exist (I3); until then, a start with the same setting begins it again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.errors import InvalidQuery, LogFileMissing, Unsupported
from binshift.log.log import Log
from binshift.log.records.commits import CommitRecord, FileRef, Part, whole_route
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import Worker
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.join import SIDE_COLUMN
from binshift.operators.session_codec import SESSION_START_COLUMN
from binshift.routing import Route
from binshift.savepoints.layout import COMMITS, METADATA
from binshift.spark.adoption.checkpoint import VERSION, SparkCheckpoint
from binshift.spark.adoption.reading import SparkState, read_states
from binshift.spark.adoption.sources import SourceOrder
from binshift.spark.adoption.states import adopted_rows
from binshift.spark.plan.catalyst import analyzed
from binshift.spark.plan.pipeline import CompiledStage, Pipeline
from binshift.spark.plan.routing_columns import PARTITION_COLUMN, Exchange
from binshift.spark.session import offsets
from binshift.spark.tasks.adopt_function import WRITTEN, AdoptFunction
from binshift.worker.messages import LogLocation

MARK = "adopted.json"
"""In the new checkpoint: what it was made of. Written first."""

NUDGE_OFFSET = "0"
"""Of binshift's own source, which is the last one of its stream, before its first wake-up."""


class Origin(msgspec.Struct, frozen=True):
    """What a checkpoint was made of.

    Attributes:
        url: of Spark's checkpoint.
        query: Spark's id of the query, which the new checkpoint keeps.
        batch: the last one that Spark had committed.
    """

    url: str
    query: str
    batch: int


_files, _origins = msgspec.json.Decoder(FileRef), msgspec.json.Decoder(Origin)


@dataclass(frozen=True)
class Adoption:
    """A checked adoption; see the module.

    Attributes:
        spark: the session.
        origin: Spark's checkpoint.
        order: where the sources of the stream are in it.
        pipeline: the program.
        rows: for each stage, the rows for its operator.
    """

    spark: SparkSession
    origin: SparkCheckpoint
    order: SourceOrder
    pipeline: Pipeline
    rows: tuple[DataFrame, ...]

    def mark(self, files: Storage) -> None:
        """Make the directory of the new checkpoint one of this adoption.

        Raises:
            InvalidQuery: it is the checkpoint of another query, or of another adoption.
        """
        origin = Origin(self.origin.files.url, self.origin.query, self.origin.batch)
        found = origin_of(files)
        if found is None and (other := next(iter(files.list("")), None)) is not None:
            raise InvalidQuery(f"{files.url} already has {other.name}: adopt needs a new checkpointLocation")
        if found is not None and found != origin:
            raise InvalidQuery(
                f"{files.url} was started with the state of {found.url} after batch {found.batch}; it cannot take over that of "
                f"{origin.url} after batch {origin.batch}. Choose a new checkpointLocation"
            )
        files.put_if_absent(MARK, msgspec.json.encode(origin))
        files.put_if_absent(METADATA, json.dumps({"id": self.origin.query}).encode())

    def write(self, log: Log, files: Storage, workers: Sequence[Worker]) -> None:
        """Write the state to the log, and Spark's part of the checkpoint; the workers share the bins.

        Raises:
            StorageUnavailable: the log cannot be written; the next start begins again.
        """
        route, epoch = Route.initial(log.format.bins, list(workers)), self.origin.batch
        written = [
            each
            for stage, rows in zip(self.pipeline.stages, self.rows, strict=True)
            for each in self._parts(log, stage, rows, route)
        ]
        self._copy(files)
        batch = offsets.read(files, epoch)
        log.append(
            CommitRecord(
                epoch=epoch,
                term=log.term,
                run=0,
                previous=log.index.tip,
                batch_time_ms=batch.batch_time_ms,
                offsets_hash=batch.digest,
                route_version=route.version,
                moves=whole_route(route),
                workers=tuple(route.workers),
                parts=tuple(part for part, _ in written),
                watermark_ms=batch.watermark_ms,
                wake_at_ms=min((wake for _, wake in written if wake is not None), default=None),
            )
        )

    def _parts(self, log: Log, stage: CompiledStage, rows: DataFrame, route: Route) -> list[tuple[Part, int | None]]:
        """The state of one operator, written by tasks: a delta for each worker, and when it needs an epoch."""
        operator: Any = stage.stage.operator
        function = AdoptFunction(
            operator, stage.name, LogLocation(log.storage.url), self.origin.batch, log.term, tuple(route.workers)
        )
        written = {row.worker: row for row in _by_worker(rows, route).mapInArrow(function, WRITTEN).collect()}
        parts: list[tuple[Part, int | None]] = []
        for worker in route.workers:
            if (row := written.get(worker)) is None:  # Spark runs no task for a frame that it knows to be empty
                parts.append((Part(stage.name, worker, f"{log.term}.{self.origin.batch}.adopted", None), None))
            else:
                file = row.file and _files.decode(row.file)
                parts.append((Part(stage.name, worker, row.attempt, file), row.wake_at_ms))
        return parts

    def _copy(self, files: Storage) -> None:
        """Spark's part: what sources keep, and the batches that Spark continues from."""
        for number, theirs in enumerate(self.order.folders):
            for name, data in self.origin.source_files(theirs):
                files.put(f"sources/{number}/{name}", data)
        for batch, entry in self.origin.offsets.items():
            files.put(f"offsets/{batch}", self.order.reordered(entry, [NUDGE_OFFSET]).text.encode())
        committed = json.dumps({"nextBatchWatermarkMs": self.origin.next_watermark_ms}, separators=(",", ":"))
        files.put(f"{COMMITS}{self.origin.batch}", f"{VERSION}\n{committed}".encode())


def origin_of(files: Storage) -> Origin | None:
    """What a checkpoint was made of; None if it was not adopted."""
    try:
        return _origins.decode(files.get(MARK))
    except LogFileMissing:
        return None


def begin(frame: DataFrame, pipeline: Pipeline, files: Storage, log_url: str, location: str | None) -> Adoption | None:
    """The adoption with which a query begins; None if it has begun, or has nothing to adopt.

    Args:
        frame: the program's.
        pipeline: the program, compiled.
        files: the checkpoint of the query.
        log_url: of its log.
        location: of Spark's checkpoint, as the user has set it; None if the user has not.

    Raises:
        InvalidQuery: an adoption of this checkpoint has begun, and was neither completed nor is it repeated; or as `plan`.
        Unsupported: as `plan`.
    """
    known = origin_of(files)
    if location is None and known is None:
        return None
    if next(iter(open_storage(log_url).list(layout.RECORDS)), None) is not None:
        return None
    if location is None:
        raise InvalidQuery(
            f"the adoption of {known.url if known else ''} into {files.url} has not been completed: start the query with "
            "the setting binshift.adopt again, or with a new checkpointLocation"
        )
    adoption = plan(frame, pipeline, location)
    adoption.mark(files)
    return adoption


def plan(frame: DataFrame, pipeline: Pipeline, location: str) -> Adoption:
    """Check that a program can continue from a checkpoint of Spark.

    Args:
        frame: the program's.
        pipeline: the program, compiled.
        location: of Spark's checkpoint, whose query has been stopped.

    Raises:
        InvalidQuery: there is no such checkpoint, it has no batch yet, or its query runs in this application.
        Unsupported: something in it cannot be adopted; the message names it.
    """
    spark = frame.sparkSession
    origin = SparkCheckpoint.read(location)
    if any(str(each.id) == origin.query for each in spark.streams.active):
        raise InvalidQuery(f"the query of {origin.files.url} is running: stop it first")
    order = SourceOrder.of(analyzed(frame), analyzed(pipeline.source))
    for entry in origin.offsets.values():
        order.reordered(entry, [NUDGE_OFFSET])
    known = read_states(pipeline.templates.session(), location, origin.batch)
    numbers = {stage.node.spark for stage in pipeline.stages if stage.node is not None}
    if not numbers <= known.keys():
        raise Unsupported(
            f"the checkpoint has the stateful operators {_listed(known)}, the program {len(numbers)}: start the program that has "
            "written the checkpoint"
        )
    rows = []
    for stage in pipeline.stages:
        assert stage.node is not None
        rows.append(adopted_rows(pipeline.templates, stage, known[stage.node.spark]))
    return Adoption(spark, origin, order, pipeline, tuple(rows))


def _listed(known: dict[int, SparkState]) -> str:
    return ", ".join(f"{number} ({state.operator})" for number, state in sorted(known.items())) or "none"


def _by_worker(rows: DataFrame, route: Route) -> DataFrame:
    """One partition for each worker, sorted by bin, and within it by what operators need together."""
    exchange = Exchange.by_owner(route, route.workers)
    placed = exchange.apply(rows.select("*", exchange.column(F.col(BIN_COLUMN)))).drop(PARTITION_COLUMN)
    keys: list[str] = []
    if SESSION_START_COLUMN in rows.columns:
        keys = rows.columns[1 : rows.columns.index(SESSION_START_COLUMN) + 1]
    elif SIDE_COLUMN in rows.columns:
        keys = [SIDE_COLUMN]
    return placed.sortWithinPartitions(BIN_COLUMN, *keys)
