"""Spark's plan of a query's batches, which standing tasks keep: when two are equal, and what a batch brings.

A stream of Spark's own `rate-micro-batch` source, whose rows are known, ends in the sink that binshift puts in the place of `foreachBatch`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from binshift.spark.session.jvm import install, java_frame

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SECONDS_MAX = 60
BATCHES = 4
ROWS = 10
START = datetime(2024, 3, 1, tzinfo=UTC)


def numbers(spark: SparkSession) -> DataFrame:
    """``value`` from 0, ten in a batch, which is a second later than the one before."""
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    return made.option("startTimestamp", round(START.timestamp() * 1000)).load()


def run(
    spark: SparkSession, frame: DataFrame, folder: Path, see: Callable[[DataFrame], None], batches: int = BATCHES
) -> Any:
    """The ended query, whose first batches ``see`` has had."""
    seen, enough = list[int](), threading.Event()

    def each(batch: DataFrame, number: int) -> None:
        if len(seen) < batches:
            see(batch)
            seen.append(number)
        else:
            enough.set()

    writer = frame.writeStream.option("checkpointLocation", str(folder))
    query = install(spark).foreach_batch(writer, spark, str(folder), each).start()
    try:
        awaited(query, enough)
    finally:
        query.stop()
    assert seen == list(range(batches))
    return query


def awaited(query: Any, enough: threading.Event) -> None:
    """Wait until a query has had its batches; raises its error if it has failed."""
    deadline = time.monotonic() + SECONDS_MAX
    while not enough.wait(0.1):
        assert time.monotonic() < deadline, query.lastProgress
        if not query.isActive:
            raise query.exception()


def cut(batch: DataFrame) -> Any:
    """A batch's plan as tasks get it; see `BatchPlan.java`."""
    return java_frame(batch).queryExecution().analyzed().rdd().cut()


def keeps(spark: SparkSession, frame: DataFrame, folder: Path) -> list[bool | None]:
    """Of each batch, whether its plan is kept already; None where it cannot be."""
    found = list[bool | None]()

    def see(batch: DataFrame) -> None:
        plan = cut(batch)
        found.append(None if plan is None else plan.kept() is not None)

    run(spark, frame, folder, see)
    return found


def test_a_plan_is_kept_when_it_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    """With projections, filters, a watermark, a generator and a union: all of that is the same from batch to batch."""
    rows = numbers(spark).withWatermark("timestamp", "2 seconds")
    many = rows.select(F.explode(F.array("value", -F.col("value"))).alias("value"), "timestamp")
    frame = many.where("value % 3 = 0").union(rows.select(F.col("value") + 1, "timestamp"))
    assert keeps(spark, frame, tmp_path) == [False, True, True, True]


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_plan_of_files_is_kept(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Whether their rows are read in columns or one by one."""
    for _ in range(BATCHES + 1):
        spark.range(ROWS).coalesce(1).write.mode("append").format(kind).save(str(tmp_path / "in"))
    files = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).format(kind).load(str(tmp_path / "in"))
    assert keeps(spark, files.where("id > 3").selectExpr("id + 1 AS next"), tmp_path / "checkpoint") == [
        False,
        *[True] * (BATCHES - 1),
    ]


@pytest.mark.parametrize("expression", ["current_timestamp()", "rand()"], ids=str)
def test_a_plan_with_a_value_of_the_batch_is_not(spark: SparkSession, tmp_path: Path, expression: str) -> None:
    """Spark has put the batch's own time, or seed, into it."""
    assert keeps(spark, numbers(spark).select("value", F.expr(expression)), tmp_path) == [False] * BATCHES


def test_a_plan_that_reads_more_than_the_batch_is_not(spark: SparkSession, tmp_path: Path) -> None:
    """A static frame can change; Spark reads it for each batch."""
    static = spark.range(5).withColumnRenamed("id", "value")
    assert keeps(spark, numbers(spark).join(F.broadcast(static), "value"), tmp_path) == [None] * BATCHES


def test_a_batch_has_its_rows_each_time_that_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """By the values that its source gives; the plan has not run before."""
    found = list[tuple[list[int], int]]()
    frame = numbers(spark).select((F.col("value") * 2).alias("twice"))
    run(
        spark,
        frame,
        tmp_path,
        lambda batch: found.append((sorted(row.twice for row in batch.collect()), batch.count())),
    )
    assert found == [([2 * (ROWS * number + at) for at in range(ROWS)], ROWS) for number in range(BATCHES)]


def test_its_watermark_is_spark_s(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that are read by Spark's own plan of the batch move it, whenever that is; it is two seconds behind the newest of them."""
    frame = numbers(spark).withWatermark("timestamp", "2 seconds").select("timestamp")
    query = run(spark, frame, tmp_path, lambda batch: (batch.count(), None)[1])
    marks = [each["eventTime"]["watermark"] for each in query.recentProgress[1:BATCHES]]
    at = [START + timedelta(seconds=number - 2) for number in range(BATCHES - 1)]
    assert marks == [each.strftime("%Y-%m-%dT%H:%M:%S.000Z") for each in at]


def test_an_error_of_the_function_ends_the_stream_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """With the same kind of error, and the same text but for the places in the code."""

    def fail(batch: DataFrame, number: int = 0) -> None:
        raise ValueError("no such luck")

    with pytest.raises(StreamingQueryException, match="no such luck") as ours:
        run(spark, numbers(spark), tmp_path / "ours", fail)
    theirs = (
        numbers(spark).writeStream.option("checkpointLocation", str(tmp_path / "sparks")).foreachBatch(fail).start()
    )
    with pytest.raises(StreamingQueryException):
        theirs.awaitTermination(SECONDS_MAX)
    texts = [re.sub(r"#\d+", "", str(each)).splitlines() for each in (ours.value, theirs.exception())]
    assert texts[0][0] == texts[1][0]
    assert texts[0][-1] == texts[1][-1]
