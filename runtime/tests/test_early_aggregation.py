"""The first half of an aggregation runs before the exchange: one key with most of the rows is few rows for its owner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.model import BinSet, Worker
from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN, REDUCED_COLUMN
from binshift.routing import Route
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import Jvm
from binshift.spark.stages.compiling import compile_program
from binshift.worker.record_counter import RecordCounter

BINS, ROWS, PARTITIONS = 16, 3_000, 3
WORKERS = (Worker(0), Worker(1))
NOWHERE = ("executor_nowhere_0", "executor_nowhere_1")


@pytest.fixture(scope="module")
def users(spark: SparkSession) -> DataFrame:
    """A stream of (user, value)."""
    return spark.readStream.format("rate").load().select(F.col("value").alias("user"), "value")


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> DataFrame:
    """Rows with the same columns, of three tasks, nine tenths of which are of user 0."""
    user = F.when(F.col("id") % 10 < 9, 0).otherwise(F.col("id"))
    return spark.range(0, ROWS, 1, PARTITIONS).select(user.alias("user"), F.col("id").alias("value"))


def exchanged_rows(spark: SparkSession, frame: DataFrame, group: str) -> tuple[list[Any], int]:
    """The frame's rows, and how many of them its tasks have written for others."""
    context: Any = spark.sparkContext
    context.setJobGroup(group, group)
    try:
        found = frame.collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    (job,) = context.statusTracker().getJobIdsForGroup(group)
    store = context._jsc.sc().statusStore()
    stages = context.statusTracker().getJobInfo(job).stageIds
    return found, sum(store.lastStageAttempt(stage).shuffleWriteRecords() for stage in stages)


def routed(frame: DataFrame, batch: DataFrame, templates: Templates, jvm: Jvm) -> DataFrame:
    """The rows for the operator of a program with one stage."""
    pipeline = compile_program(frame, templates, "update", BINS)
    template = pipeline.stages[0].routed(Route.initial(BINS, WORKERS), WORKERS)
    return jvm.pin_filled(template, [(pipeline.batch, batch)], 5, NOWHERE)


def test_a_hot_key_is_a_row_of_each_task(
    spark: SparkSession, users: DataFrame, batch: DataFrame, templates: Templates, jvm: Jvm
) -> None:
    """Instead of 2,700 rows. The result and the number of records stay the same."""
    counts = users.groupBy("user").agg(F.count("*"), F.max("value"), F.collect_set(F.col("value") % 2))
    rows, written = exchanged_rows(spark, routed(counts, batch, templates, jvm), "early")
    others = ROWS // 10
    assert written == others + PARTITIONS
    assert len(rows) == others + 1
    (hot,) = (row for row in rows if row.k0 == 0)
    assert hot[REDUCED_COLUMN] == ROWS - others
    assert sum(row[REDUCED_COLUMN] for row in rows) == ROWS


def test_all_rows_as_one_group(
    spark: SparkSession, users: DataFrame, batch: DataFrame, templates: Templates, jvm: Jvm
) -> None:
    """Every task has one row of it."""
    rows, written = exchanged_rows(spark, routed(users.groupBy().count(), batch, templates, jvm), "all")
    assert written == PARTITIONS
    assert [row[REDUCED_COLUMN] for row in rows] == [ROWS]


def test_an_aggregate_of_ordered_rows_stays_behind(
    spark: SparkSession, users: DataFrame, batch: DataFrame, templates: Templates, jvm: Jvm
) -> None:
    """Its worker has all of the rows to work on, and they count as so many."""
    sketch = users.groupBy("user").agg(F.approx_count_distinct("value"))
    rows, written = exchanged_rows(spark, routed(sketch, batch, templates, jvm), "ordered")
    assert written == ROWS
    assert sum(row[RECORDS_COLUMN] for row in rows) == ROWS


@pytest.mark.parametrize(("column", "weights"), [(RECORDS_COLUMN, [7, 5]), (REDUCED_COLUMN, [1, 2])])
def test_the_weight_of_a_bin_is_what_its_owner_works_on(column: str, weights: list[int]) -> None:
    """All records are counted either way."""
    counter = RecordCounter(BinSet(np.array([3, 4], dtype=np.int32)))
    bins, counts = pa.array([3, 4, 4], pa.int32()), pa.array([7, 2, 3], pa.int64())
    counter.add(pa.RecordBatch.from_arrays([bins, counts], names=[BIN_COLUMN, column]))
    assert (counter.rows, counter.records, counter.weighed) == (3, 12, sum(weights))
    assert np.frombuffer(counter.packed(), "<i8").reshape(2, -1).tolist() == [[3, 4], weights]
