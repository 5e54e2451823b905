"""Unusual input, through binshift and through plain Spark: difficult keys, skew, sizes, and time that jumps."""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import publish
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import binshift

pytestmark = pytest.mark.cluster

Rows = Counter[tuple[str, ...]]
MEGABYTE = 1_000_000
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_BEEF))[0]
DOUBLES = (None, float("nan"), OTHER_NAN, -0.0, 0.0, float("inf"), float("-inf"), 5e-324, -1.5)
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
STRINGS = (None, "", " ", "\0", "\0\0", COMPOSED, DECOMPOSED, "A", "a", "\U0001f600", "\ufeff", "null", "nan")
LONG = tuple(start + "x" * (MEGABYTE - 2) + end for start, end in (("a", "a"), ("a", "b"), ("b", "a")))


def put(folder: Path, number: int, table: pa.Table) -> None:
    """A file that becomes batch ``number``: Spark orders files by their time."""
    folder.mkdir(exist_ok=True)
    hidden = folder.parent / f"{number}.parquet"
    pq.write_table(table, hidden)
    publish(hidden, folder, number)


class Sink:
    """Keeps the rows of each epoch that has any, in a form that distinguishes NaN, -0.0 and spellings."""

    def __init__(self) -> None:
        self.epochs: dict[int, Rows] = {}

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Keep the rows of one epoch."""
        rows = Counter(tuple(map(spelt, row)) for row in frame.collect())
        if rows:
            self.epochs[epoch] = rows

    @property
    def rows(self) -> list[Rows]:
        """The rows in the order of epochs."""
        return [self.epochs[epoch] for epoch in sorted(self.epochs)]


def spelt(value: object) -> str:
    """A value as text; long ones as their hash."""
    text = repr(value)
    return text if len(text) < 200 else f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()}"


def source(session: SparkSession, folder: Path, schema: str) -> DataFrame:
    """A stream with one file per batch."""
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def taken(writer: DataStreamWriter, checkpoint: Path, mode: str = "update") -> list[Rows]:
    """The output of a query, of binshift or of Spark, over all files."""
    sink = Sink()
    writer = writer.outputMode(mode).option("checkpointLocation", str(checkpoint)).foreachBatch(sink)
    assert writer.trigger(availableNow=True).start().awaitTermination(240)
    return sink.rows


def compared(both: Sequence[list[Rows]]) -> None:
    """Check that each batch has the same rows, and that there are batches."""
    ours, sparks = both
    assert len(sparks) > 1
    assert len(ours) == len(sparks)
    for batch, (found, wanted) in enumerate(zip(ours, sparks, strict=True)):
        assert found == wanted, (
            f"batch {batch}: {list((found - wanted).items())[:5]} {list((wanted - found).items())[:5]}"
        )


def test_awkward_keys_stay_apart_while_they_move(session: SparkSession, tmp_path: Path) -> None:
    """Null, NaN, both zeros, empty text, two spellings of é, and a megabyte of text group as in Spark, on new workers too."""
    pairs = [*itertools.product(DOUBLES, STRINGS), *((None, text) for text in LONG)]
    folder, schema = tmp_path / "in", "k double, s string, v long"
    sink = Sink()

    def table(batch: int) -> pa.Table:
        some = pairs[:: -1 if batch % 2 else 1][batch % 3 :]
        numbers = [1000 * batch + at for at in range(len(some))]
        keys, texts = zip(*some, strict=True)
        columns = [pa.array(keys, pa.float64(), from_pandas=False), pa.array(texts, pa.string()), pa.array(numbers)]
        return pa.table(columns, names=["k", "s", "v"])

    def grouped(frame: DataFrame) -> DataFrame:
        return frame.groupBy("k", "s").agg(F.count("*"), F.sum("v"), F.max("v"), F.min("s"))

    put(folder, 0, table(0))
    frame = grouped(source(session, folder, schema))
    writer = (
        binshift.writeStream(frame, bins=32, workers=2)
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "ours"))
    )
    query = writer.foreachBatch(sink).start()
    for batch, workers in ((1, 4), (2, 1), (3, 3)):
        query.processAllAvailable()
        assert query.rescale(workers, batch_size=8).wait(120).value == "settled"
        put(folder, batch, table(batch))
    query.processAllAvailable()
    query.stop()
    wanted = taken(frame.writeStream, tmp_path / "sparks")
    compared([sink.rows, wanted])
    spellings = {row[1] for rows in sink.rows for row in rows}
    assert {repr(COMPOSED), repr(DECOMPOSED)} < spellings


def test_skewed_empty_and_giant_batches(session: SparkSession, tmp_path: Path) -> None:
    """One key with nine tenths of the rows, a batch without rows, one of half a million, one of a single row: as in Spark."""
    folder = tmp_path / "in"
    for batch, rows in enumerate((50_000, 0, 500_000, 1, 0, 20_000)):
        random = np.random.default_rng(batch)
        keys = np.where(random.random(rows) < 0.9, 7, random.integers(0, 20_000, rows))
        put(folder, batch, pa.table({"k": keys.astype(np.int64), "v": np.arange(rows, dtype=np.int64)}))

    def grouped(frame: DataFrame) -> DataFrame:
        return frame.groupBy("k").agg(F.count("*"), F.sum("v"), F.max("v"))

    frame = grouped(source(session, folder, "k long, v long"))
    ours = taken(binshift.writeStream(frame, bins=64, workers=4), tmp_path / "ours")
    compared([ours, taken(frame.writeStream, tmp_path / "sparks")])


START = datetime(2024, 3, 31, 0, 59, 30, tzinfo=UTC)
"""Half a minute before clocks in Europe change to summer time."""


def seconds(*groups: Sequence[float | None]) -> list[list[datetime | None]]:
    """Batches of event times, as seconds after `START`."""
    return [[None if at is None else START + timedelta(seconds=at) for at in group] for group in groups]


TIMES = seconds(
    [*np.linspace(0, 20, 41).tolist(), None],
    [*np.linspace(15, 60, 31).tolist(), -3600.0],
    [
        -3600.0,
        -1.0,
        0.0,
        9.999,
        10.0,
        10.001,
        49.999,
        50.0,
        61.0,
    ],  # a clock set back by an hour; edges of lateness
    [40.0, 45.0, 49.999, 50.0, 51.0],
    [None, None],
    [58.0, 3600.0 * 24 * 365],  # a clock set forward by a year
    [61.0, 120.0, 3600.0 * 24],  # and back: all of this is late in the next batch
    [62.0, 121.0, 3600.0 * 24 * 365 + 60],
)


@pytest.mark.parametrize("mode", ["update", "append"])
def test_late_rows_and_clocks_that_jump(mode: str, session: SparkSession, tmp_path: Path) -> None:
    """Rows that are late, at the very edge, without a time, from a clock set back or forward count, or not, as in Spark."""
    folder = tmp_path / "in"
    for batch, times in enumerate(TIMES):
        columns = {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": pa.array([at % 3 for at in range(len(times))]),
        }
        put(folder, batch, pa.table(columns))

    def windows(frame: DataFrame) -> DataFrame:
        grouped = frame.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "10 seconds", "5 seconds"), "k")
        return grouped.agg(F.count("*").alias("n"), F.max("ts").alias("latest")).select("window.*", "k", "n", "latest")

    frame = windows(source(session, folder, "ts timestamp, k long"))
    found = taken(binshift.writeStream(frame, bins=16, workers=2), tmp_path / "ours", mode)
    compared([found, taken(frame.writeStream, tmp_path / "sparks", mode)])
