"""Which batches without input a query needs, and what time they have: as in Spark, however many epochs moves of bins add."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from log_worlds import DictStorage
from plan_world import clicks_stream, templates_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.model import Epoch
from binshift.spark.jobs.batches import NO_DATA_CONF, SparkBatches, due
from binshift.spark.plan.stage import Due
from binshift.spark.stages.compiling import compile_program

WATERMARK = frozenset({Due.WATERMARK})


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return clicks_stream(spark)


def timed(clicks: DataFrame) -> DataFrame:
    """With a watermark."""
    return clicks.withWatermark("ts", "10 seconds")


def by_session(clicks: DataFrame) -> DataFrame:
    """Sessions by user."""
    return timed(clicks).groupBy(F.session_window("ts", "5 seconds"), "user").count()


@pytest.mark.parametrize(
    ("make", "mode", "expected"),
    [
        (by_session, "append", WATERMARK),
        (by_session, "complete", frozenset()),
        (lambda clicks: timed(clicks).groupBy("user").count(), "update", WATERMARK),
        (lambda clicks: timed(clicks).groupBy("user").count(), "complete", frozenset()),
        (lambda clicks: clicks.groupBy("user").count(), "update", frozenset()),
        (lambda clicks: timed(clicks).dropDuplicates(["user"]), "append", WATERMARK),
        (lambda clicks: timed(clicks).limit(3), "append", frozenset()),
    ],
    ids=["append", "complete", "update", "all groups", "no watermark", "deduplication", "limit"],
)
def test_an_advance_of_the_watermark_is_due(
    make: Callable[[DataFrame], DataFrame], mode: str, expected: frozenset[Due], clicks: DataFrame
) -> None:
    """By the rules that Spark has for each operator."""
    spark = clicks.sparkSession
    pipeline = compile_program(make(clicks), templates_of(spark), mode, 16)
    assert due(pipeline) == expected
    spark.conf.set(NO_DATA_CONF, "false")
    try:
        assert due(pipeline) == frozenset()
    finally:
        spark.conf.unset(NO_DATA_CONF)


@pytest.mark.parametrize("needs", [frozenset(), WATERMARK, frozenset({Due.CLOCK})], ids=str)
@pytest.mark.parametrize("has_input", [True, False])
def test_a_batch_that_spark_would_not_run_keeps_the_time(needs: frozenset[Due], has_input: bool) -> None:
    """Else the query would have a later watermark than in Spark, and rows of the next batch would be late."""
    files = DictStorage()
    for batch in range(2):
        times = json.dumps({"batchTimestampMs": 7 + batch, "batchWatermarkMs": 3 + batch})
        source, nudge = {"a": batch if has_input else 0}, batch
        files.put_if_absent(f"offsets/{batch}", f"v1\n{times}\n{json.dumps(source)}\n{nudge}".encode())
    nothing = cast(Any, None)
    batches = SparkBatches(nothing, files, nothing, "name", "query", needs)
    assert not batches.offsets(Epoch(0)).keeps_time
    assert batches.offsets(Epoch(1)).keeps_time == (not needs and not has_input)
