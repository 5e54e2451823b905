"""Programs whose state is adopted in tests: their input in steps, and how a Spark query over them is run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from adopted_processors import SEEN, TTL_MS, Remembering, RememberingFrames, counted
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "k string, v long, d decimal(6,2), x double, t timestamp"
START = datetime(2024, 3, 1, tzinfo=UTC)
STEPS = 4
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
ROCKSDB, HDFS = (
    f"org.apache.spark.sql.execution.streaming.state.{name}StateStoreProvider" for name in ("RocksDB", "HDFSBacked")
)
Sink = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Program:
    """A query.

    Attributes:
        build: makes it of one stream for each input.
        mode: the output mode.
        inputs: how many streams.
        repeats: it returns its groups in every batch, also in one without rows, which a move can add.
        processor: it runs a processor, for which Spark needs RocksDB.
        without_pause: Spark would run batches without pause, as it has processing time; it runs none without rows.
    """

    build: Callable[..., DataFrame]
    mode: str = "append"
    inputs: int = 1
    repeats: bool = False
    processor: bool = False
    without_pause: bool = False


def late(frame: DataFrame) -> DataFrame:
    """With a watermark."""
    return frame.withWatermark("t", "10 seconds")


def aggregates(frame: DataFrame) -> DataFrame:
    """Functions with every kind of buffer."""
    return frame.groupBy("k").agg(
        F.count("*").alias("n"),
        F.sum("v").alias("s"),
        F.avg("v").alias("a"),
        F.sum("d").alias("sd"),
        F.avg("d").alias("ad"),
        F.sum("x").alias("sx"),
        F.sort_array(F.collect_list("v")).alias("list"),
        F.sort_array(F.collect_set("d")).alias("set"),
        F.max_by("d", "v").alias("by"),
        F.max("t").alias("latest"),
        F.min("d").alias("least"),
        F.round(F.stddev("x"), 9).alias("deviation"),
        F.round(F.corr("v", "x"), 9).alias("correlation"),
        F.percentile("v", 0.5).alias("middle"),
        F.approx_count_distinct("v").alias("about"),
    )


def chained(frame: DataFrame) -> DataFrame:
    """An aggregation behind another."""
    counts = late(frame).groupBy(F.window("t", "5 seconds"), "k").count()
    return counts.groupBy(F.window(F.window_time("window"), "10 seconds")).agg(F.sum("count").alias("n"))


def shared(frame: DataFrame) -> DataFrame:
    """Two aggregations that are one here: the first one's columns are among the second one's."""
    groups = late(frame).groupBy(F.window("t", "5 seconds"), "k")
    narrow, wide = groups.agg(F.sum("v").alias("s")), groups.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    return narrow.selectExpr("k", "0L AS n", "s").union(wide.select("k", "n", "s"))


def joined(left: DataFrame, right: DataFrame) -> DataFrame:
    """Rows without a partner come out late."""
    near = F.expr("a.k = b.k and a.t >= b.t - interval 5 seconds and a.t <= b.t + interval 5 seconds")
    columns = ("a.k", "a.v", "a.t", F.col("b.v").alias("w"), F.col("b.t").alias("u"))
    return late(left).alias("a").join(late(right).alias("b"), near, "left_outer").select(*columns)


def stateful(frame: DataFrame) -> DataFrame:
    """A processor with timers of event time."""
    return late(frame).groupBy("k").transformWithState(Remembering(), SEEN, "Update", "EventTime")


def expiring(frame: DataFrame) -> DataFrame:
    """A processor with a time to live, in pandas."""
    return frame.groupBy("k").transformWithStateInPandas(RememberingFrames(TTL_MS), SEEN, "Update", "ProcessingTime")


def grouped(timeout: str) -> Callable[[DataFrame], DataFrame]:
    """A function with states, and with timeouts."""

    def build(frame: DataFrame) -> DataFrame:
        rows = frame.withWatermark("t", "10 seconds").groupBy("k")
        return rows.applyInPandasWithState(counted, SEEN, "n long, d decimal(6,2)", "update", timeout)

    return build


PROCESSORS = {
    "processor": Program(stateful, "update", processor=True),
    "processor with ttl": Program(expiring, "update", processor=True, without_pause=True),
}
GROUP_STATES = {
    "group states": Program(grouped("NoTimeout"), "update"),
    "group timeouts": Program(grouped("EventTimeTimeout"), "update"),
}

PROGRAMS = {
    "aggregates": Program(aggregates, "update"),
    "complete": Program(lambda f: f.groupBy("k").count(), "complete", repeats=True),
    "windows": Program(lambda f: late(f).groupBy(F.window("t", "5 seconds"), "k").agg(F.sum("v"), F.first("v"))),
    "global": Program(lambda f: f.agg(F.count("*").alias("n"), F.sum("v").alias("s")), "update", repeats=True),
    "chained": Program(chained),
    "shared": Program(shared),
    "distinct": Program(lambda f: f.select("k", "d").distinct(), "update"),
    "duplicates": Program(lambda f: f.dropDuplicates(["v", "k"]).select("k", "v")),
    "timed duplicates": Program(lambda f: late(f).dropDuplicates(["k", "t"]).select("k", "t")),
    "duplicates within": Program(lambda f: late(f).dropDuplicatesWithinWatermark(["k"]).select("k", "v")),
    "sessions": Program(
        lambda f: late(f).groupBy(F.session_window("t", "3 seconds"), "k").agg(F.count("*"), F.sum("v"), F.max("d"))
    ),
    "join": Program(joined, inputs=2),
    "limit": Program(lambda f: f.select("k", "v").limit(9)),
    **GROUP_STATES,
    **PROCESSORS,
}


def rows(step: int, stream: int) -> list[dict[str, Any]]:
    """Of one step; each is twelve seconds later than the one before, and every seventh row has nulls."""
    numbers = range(step * 10 + stream, step * 10 + 10 + stream)
    made = [
        {
            "k": "abcde"[each * 7 % 5],
            "v": each * 11 % 17,
            "d": f"{each * 13 % 29}.25",
            "x": each * 0.75 + stream,
            "t": (START + timedelta(seconds=step * 12 + each % 10)).isoformat(),
        }
        for each in numbers
    ]
    return [{**row, "k": None, "d": None} if at % 7 == 3 else row for at, row in enumerate(made)]


def put(folder: Path, step: int, program: Program) -> None:
    """The files of one step."""
    for stream in range(program.inputs):
        source = folder / f"in{stream}"
        source.mkdir(parents=True, exist_ok=True)
        hidden = source / f".{step}.json"
        hidden.write_text("\n".join(map(json.dumps, rows(step, stream))))
        hidden.rename(source / f"{step}.json")


@contextmanager
def conf_kept(spark: SparkSession) -> Iterator[None]:
    """The session's conf is the same afterwards; other tests share the session."""
    before = {name: spark.conf.get(name) for name in (PROVIDER, NO_DATA)}
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value or "")


def frame(spark: SparkSession, folder: Path, program: Program) -> DataFrame:
    """The query over the files of a folder, one a batch."""
    spark.conf.set(PROVIDER, ROCKSDB if program.processor else HDFS)
    spark.conf.set(NO_DATA, not program.without_pause)
    streams = []
    for stream in range(program.inputs):
        (folder / f"in{stream}").mkdir(parents=True, exist_ok=True)
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        streams.append(reader.json(str(folder / f"in{stream}")))
    return program.build(*streams)


def run_spark(spark: SparkSession, folder: Path, program: Program, steps: Sequence[int], sink: Sink) -> Path:
    """Run a query of Spark's over some steps, and stop it; returns its checkpoint."""
    checkpoint = folder / "spark"
    writer = frame(spark, folder, program).writeStream.outputMode(program.mode).foreachBatch(sink)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        for step in steps:
            put(folder, step, program)
            query.processAllAvailable()
    finally:
        query.stop()
    return checkpoint


def take_away(folder: Path, step: int, program: Program) -> None:
    """Remove the files of one step."""
    for stream in range(program.inputs):
        (folder / f"in{stream}" / f"{step}.json").unlink()
