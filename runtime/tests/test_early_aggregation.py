"""The first half of an aggregation runs before the exchange: one key with most of the rows is few rows for its owner.

Where keys do not repeat, both halves are one aggregation behind it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from test_progress import summary

from binshift.model import BinSet, Worker
from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN, REDUCED_COLUMN
from binshift.routing import Route
from binshift.spark.jobs.standing import begins_early
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import Jvm, java_frame, java_session
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


AGGREGATES = (
    *(
        "count(*)",
        "count(text)",
        "count(value) FILTER (WHERE value > 9)",
        "sum(value)",
        "try_sum(tiny)",
        "avg(value)",
        "avg(price)",
    ),
    *(
        "min(text)",
        "max(text)",
        "first(value)",
        "last(text)",
        "max_by(text, value)",
        "bit_xor(value)",
        "bool_or(value > 5)",
    ),
    *(
        "stddev(value)",
        "skewness(value)",
        "corr(value, price)",
        "sort_array(collect_set(text))",
        "sort_array(collect_list(value))",
    ),
)


@pytest.mark.parametrize("key", ["user", "user % 40", "concat('u', user)", "struct(user, text)"])
def test_one_aggregation_behind_gives_what_two_halves_give(
    key: str, spark: SparkSession, batch: DataFrame, templates: Templates, jvm: Jvm
) -> None:
    """Functions of all kinds, by keys with one row each and with several; the plan has one aggregation instead of two."""
    made = [
        "CAST(value AS STRING) AS text",
        "CAST(value % 100 AS TINYINT) AS tiny",
        "CAST(value AS DECIMAL(9, 2)) AS price",
    ]
    rows = batch.where("user > 0").selectExpr("*", *made)
    users = spark.readStream.format("rate").load().select(F.col("value").alias("user"), "value").selectExpr("*", *made)
    pipeline = compile_program(users.groupBy(F.expr(key)).agg(*map(F.expr, AGGREGATES)), templates, "update", BINS)
    template = pipeline.stages[0].routed(Route.initial(BINS, WORKERS), WORKERS)
    halves = pipeline.fill(template, {pipeline.batch: rows}, 5)
    plan: Any = single_aggregation(jvm, halves)
    assert str(plan).count("Aggregate(") == 1
    whole = DataFrame(
        java_session(spark).internalCreateDataFrame(plan.execute(), java_frame(halves).schema(), False), spark
    )
    found, expected = (sorted(map(str, each.collect())) for each in (whole, halves))
    assert found == expected
    assert len(found) == (4 if "%" in key else ROWS // 10)


def single_aggregation(jvm: Jvm, frame: DataFrame) -> Any:
    """The frame's plan with aggregations that are whole behind the exchange; None if it has none."""
    gateway: Any = frame.sparkSession.sparkContext._gateway
    arguments = gateway.new_array(gateway.jvm.Object, 2)
    arguments[0], arguments[1] = java_session(frame.sparkSession), java_frame(frame)
    (method,) = (each for each in jvm._class("dev.binshift.SingleAggregation").getMethods() if each.getName() == "plan")
    return method.invoke(None, arguments)


def test_other_plans_have_no_aggregation_that_could_be_one(
    spark: SparkSession, users: DataFrame, batch: DataFrame, templates: Templates, jvm: Jvm
) -> None:
    """Of ordered rows, for instance."""
    sketch = users.groupBy("user").agg(F.approx_count_distinct("value"))
    assert single_aggregation(jvm, routed(sketch, batch, templates, jvm)) is None


@pytest.mark.parametrize(
    ("records", "rows", "early"), [(100_000, 10_000, True), (100_000, 90_000, False), (1_000, 10, False)]
)
def test_it_begins_early_where_that_leaves_fewer_of_many_rows(records: int, rows: int, early: bool) -> None:
    """And not in short epochs."""
    reports = [replace(summary(worker), records_in=records // 2, rows_in=rows // 2) for worker in range(2)]
    assert begins_early(reports) == early


@pytest.mark.parametrize(("column", "weights"), [(RECORDS_COLUMN, [7, 5]), (REDUCED_COLUMN, [1, 2])])
def test_the_weight_of_a_bin_is_what_its_owner_works_on(column: str, weights: list[int]) -> None:
    """All records are counted either way."""
    counter = RecordCounter(BinSet(np.array([3, 4], dtype=np.int32)))
    bins, counts = pa.array([3, 4, 4], pa.int32()), pa.array([7, 2, 3], pa.int64())
    counter.add(pa.RecordBatch.from_arrays([bins, counts], names=[BIN_COLUMN, column]))
    assert (counter.rows, counter.records, counter.weighed) == (3, 12, sum(weights))
    assert np.frombuffer(counter.packed(), "<i8").reshape(2, -1).tolist() == [[3, 4], weights]
