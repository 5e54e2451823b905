"""The events of a run as files: event numbers, one file for each batch, and the events themselves for the oracle."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from nexmark.config import Config
from nexmark.events import Streams, streams
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
        numbers = self.folder / "numbers"
        numbers.mkdir(parents=True)
        for step in range(self.steps):
            path = numbers / f"{step:05}.parquet"
            first = step * self.per_step
            pq.write_table(pa.table({"n": pa.array(range(first, first + self.per_step), pa.int64())}), path)
            os.utime(path, (OLDEST + step, OLDEST + step))
        frame = spark.range(self.events).selectExpr("id AS n", f"CAST(id div {self.per_step} AS BIGINT) AS step")
        write_events(streams(frame, self.config, keep=("step",)), self.folder / "events")

    def stream(self, spark: SparkSession) -> Streams:
        """The three streams of one source, one file a batch."""
        reader = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1)
        return streams(reader.parquet(str(self.folder / "numbers")), self.config)

    def batch(self, spark: SparkSession) -> Streams:
        """The same events as batch frames."""
        return streams(spark.range(self.events).withColumnRenamed("id", "n"), self.config)
