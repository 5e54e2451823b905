"""The workload of the cluster tests: a deterministic stream, an aggregation, and its expected result.

Batch ``e`` of the stream has the values ``e*rows .. (e+1)*rows-1``, so the reference needs no copy of the input. Keys
are composite and difficult on purpose: a nullable string and a decimal.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import binshift
from binshift.spark.frontend.writer import StatefulStreamWriter

ROWS = 600
NAMES = 41
GROUPS = 7

Key = tuple[str | None, Decimal]
Answer = dict[Key, tuple[int, int, int, int]]
"""By key: count, sum, min, max of the values."""


def stream(spark: SparkSession) -> DataFrame:
    """The input, with its key columns."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    name = F.when(F.col("value") % NAMES != 0, F.concat(F.lit("u"), F.col("value") % NAMES))
    group = (F.col("value") % GROUPS).cast("decimal(10,2)")
    return source.load().select("value", name.alias("name"), group.alias("grp"))


def print_unnamed(name: str | None) -> str | None:
    """A user function that prints."""
    if name is None:
        sys.stdout.write("a row without a name\n")
    return name


def aggregated(frame: DataFrame) -> DataFrame:
    """The query's frame."""
    aggregates = (F.count("*").alias("n"), F.sum("value").alias("total"), F.min("value"), F.max("value").alias("most"))
    return frame.groupBy("name", "grp").agg(*aggregates)


def counting(session: SparkSession, **settings: Any) -> StatefulStreamWriter:
    """Its writer."""
    return binshift.writeStream(aggregated(stream(session)), **settings).outputMode("update")


def key_of(value: int) -> Key:
    """The key of a value."""
    name = None if value % NAMES == 0 else f"u{value % NAMES}"
    return name, Decimal(value % GROUPS).quantize(Decimal("0.01"))


class Reference:
    """The slow, simple result, epoch by epoch."""

    def __init__(self) -> None:
        self.state: Answer = {}
        self._next = 0

    def epoch(self, epoch: int) -> Answer:
        """The rows that epoch ``epoch`` must emit: every key it changed, with its value so far."""
        assert epoch == self._next, f"the reference is at epoch {self._next}, not {epoch}"
        self._next += 1
        touched: Answer = {}
        for value in range(epoch * ROWS, (epoch + 1) * ROWS):
            key = key_of(value)
            n, total, least, most = self.state.get(key, (0, 0, value, value))
            self.state[key] = touched[key] = (n + 1, total + value, min(least, value), max(most, value))
        return touched


class Outputs:
    """A foreachBatch sink that keeps each epoch's rows; a replayed epoch replaces its own rows."""

    def __init__(self) -> None:
        self.epochs: dict[int, Answer] = {}

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Keep the rows of one epoch."""
        rows = frame.collect()
        found = {(r[0], r[1]): (r[2], r[3], r[4], r[5]) for r in rows}
        assert len(found) == len(rows), f"epoch {epoch} emitted a key twice"
        self.epochs[epoch] = found

    def check(self, last: int, seed: object) -> None:
        """Compare every epoch up to ``last`` with the reference."""
        reference = Reference()
        for epoch in range(last + 1):
            wanted = reference.epoch(epoch)
            got: Mapping[Key, Any] | None = self.epochs.get(epoch)
            assert got is not None, f"seed {seed}: epoch {epoch} was never emitted"
            assert got == wanted, f"seed {seed}: epoch {epoch} differs in {_differences(got, wanted)}"


def _differences(got: Mapping[Key, Any], wanted: Mapping[Key, Any]) -> list[tuple[Key, Any, Any]]:
    keys = [key for key in {*got, *wanted} if got.get(key) != wanted.get(key)]
    return [(key, got.get(key), wanted.get(key)) for key in keys[:5]]
