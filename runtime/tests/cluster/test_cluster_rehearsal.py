"""New workers rehearse epochs with made-up rows: no user function ever sees one, and queries that reject them run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import binshift

pytestmark = pytest.mark.cluster


def _counted(session: SparkSession, key: Any, where: Path) -> set[Any]:
    """Run a count by ``key`` for a few epochs, through a rescale; returns the keys."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).option("numPartitions", 2).load()
    dates = source.select(
        F.concat(F.lit("2026-01-"), F.lpad((F.col("value") % 9 + 1).cast("string"), 2, "0")).alias("word")
    )
    found: set[Any] = set()
    frame = dates.groupBy(key.alias("key")).agg(F.count("*").alias("n"))
    writer = (
        binshift.writeStream(frame, bins=16, workers=2).outputMode("update").option("checkpointLocation", str(where))
    )
    query: Any = writer.foreachBatch(lambda df, _: found.update(row["key"] for row in df.collect())).start()
    query.await_epoch(3)
    query.rescale(4).wait(60)
    query.await_epoch(query.epoch + 2)
    query.stop()
    return found


def test_expressions_that_refuse_made_up_values(session: SparkSession, tmp_path: Path) -> None:
    """If a cast fails for anything but dates, the rehearsal continues without rows."""
    keys = _counted(session, F.to_date("word"), tmp_path / "checkpoint")
    assert sorted(str(key) for key in keys) == [f"2026-01-0{day}" for day in range(1, 10)]


def test_no_python_function_sees_a_made_up_row(session: SparkSession, tmp_path: Path) -> None:
    """The function's arguments are recorded on the executors."""
    notes = tmp_path / "notes"
    notes.mkdir()

    @F.udf("string")
    def noted(word: str) -> str:
        (notes / str(word)).touch()
        return word[-1]

    assert _counted(session, noted("word"), tmp_path / "checkpoint") == set("123456789")
    assert sorted(note.name for note in notes.iterdir()) == [f"2026-01-0{day}" for day in range(1, 10)]


def test_an_operator_that_a_plan_runs_twice(session: SparkSession, tmp_path: Path) -> None:
    """The counts of a window are joined with their maximum; without reuse of exchanges, tasks of both meet in one rehearsal."""
    session.conf.set("spark.sql.exchange.reuse", "false")
    try:
        rate = (
            session.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).option("numPartitions", 2).load()
        )
        word = (F.col("value") % 3).alias("word")
        timed = rate.withWatermark("timestamp", "0 seconds")
        counts = timed.groupBy(F.window("timestamp", "1 second"), word).count()
        most = counts.groupBy("window").agg(F.max("count").alias("most"))
        frame = counts.join(most, "window").where(F.col("count") == F.col("most"))
        writer = binshift.writeStream(frame, bins=16, workers=2).outputMode("append")
        query: Any = writer.option("checkpointLocation", str(tmp_path)).format("noop").start()
        query.await_epoch(2)
        query.stop()
    finally:
        session.conf.unset("spark.sql.exchange.reuse")
