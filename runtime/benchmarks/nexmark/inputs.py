"""The events of a run as files, one file for each batch, and by kind for the oracle.

The events are made once. Otherwise every batch of every run would plan the many expressions that make them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from nexmark.config import Config
from nexmark.events import KINDS, Streams, streams, written
from nexmark.oracle import write_events

OLDEST = 1_700_000_000
"""Time of the first file: Spark reads files by age."""


@dataclass(frozen=True)
class Inputs:
    """Events ``0 .. events - 1`` in ``steps`` files, each of which is one batch.

    Attributes:
        folder: where the files are.
        config: of the generator.
        events: their number; a multiple of ``steps``, and each file has whole groups.
        steps: the number of batches with data.

    Raises:
        ValueError: the numbers do not fit.
    """

    folder: Path
    config: Config
    events: int
    steps: int

    def __post_init__(self) -> None:
        if self.events % self.steps or self.per_step % self.config.group:
            raise ValueError(
                f"{self.events} events in {self.steps} steps, shuffled in groups of {self.config.group}: a step needs whole groups"
            )

    @property
    def per_step(self) -> int:
        """Events of a batch."""
        return self.events // self.steps

    def write(self, spark: SparkSession) -> None:
        """Write all files; the session's time zone has to be UTC."""
        frame = spark.range(self.events).selectExpr("id AS n", f"CAST(id div {self.per_step} AS BIGINT) AS step")
        write_events(streams(frame, self.config, keep=("step",)), self.by_kind)
        tables = {kind: pq.read_table(self.by_kind / kind) for kind in KINDS}
        self._steps.mkdir()
        for step in range(self.steps):
            path = self._steps / f"{step:05}.parquet"
            pq.write_table(
                batch_of({kind: table.filter(pc.field("step") == step) for kind, table in tables.items()}), path
            )
            os.utime(path, (OLDEST + step, OLDEST + step))

    def stream(self, spark: SparkSession) -> Streams:
        """The three streams of one source, one file a batch."""
        schema = spark.read.parquet(str(self._steps / "00000.parquet")).schema
        return written(spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self._steps)))

    def beginning(self, steps: int) -> Inputs:
        """The first batches alone, in a folder of their own within this one's."""
        made = replace(self, folder=self.folder / "beginning", events=steps * self.per_step, steps=steps)
        made._steps.mkdir(parents=True)
        for path in sorted(self._steps.iterdir())[:steps]:
            os.link(path, made._steps / path.name)
        made.by_kind.symlink_to(self.by_kind.resolve())
        return made

    @property
    def by_kind(self) -> Path:
        """The folder of the events by kind, for the oracle; a beginning has the events of later batches as well."""
        return self.folder / "events"

    @property
    def _steps(self) -> Path:
        return self.folder / "steps"

    def batch(self, spark: SparkSession) -> Streams:
        """The same events as batch frames."""
        return streams(spark.range(self.events).withColumnRenamed("id", "n"), self.config)


def batch_of(events: Mapping[str, pa.Table]) -> pa.Table:
    """The events of a batch in one table: a column for each kind, which is null in rows of the other kinds."""
    rows = {kind: _structs(table.drop_columns(["step"])) for kind, table in events.items()}
    columns = {
        kind: pa.concat_arrays(
            [each if of == kind else pa.nulls(len(each), rows[kind].type) for of, each in rows.items()]
        )
        for kind in rows
    }
    return pa.table(columns)


def _structs(table: pa.Table) -> pa.StructArray:
    """The rows as values of one column; times are points in time, as the stream's are."""
    arrays = [column.combine_chunks() for column in table.columns]
    timed = [each.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(each.type) else each for each in arrays]
    return pa.StructArray.from_arrays(timed, names=table.column_names)
