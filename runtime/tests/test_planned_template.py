"""A template whose physical plan is made once, and is filled in with the rows of each epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plan_world import clicks_stream, templates_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from stateless_calls import STATELESS, behind

from binshift.spark.plan.graph import cut
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import Jvm, install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOWHERE = ("executor_nowhere_0",)


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Jvm:
    """That of the session."""
    return install(spark)


@pytest.fixture(scope="module")
def templates(spark: SparkSession) -> Templates:
    """Those of the session."""
    return templates_of(spark)


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return clicks_stream(spark)


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> DataFrame:
    """Rows with the same columns, as in one epoch."""
    return spark.sql(
        "SELECT timestamp'2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) AS ts, id % 3 AS user, "
        "nullif(id, 4) AS amount FROM range(0, 6, 1, 1)"
    )


@pytest.fixture(scope="module")
def users(spark: SparkSession) -> DataFrame:
    """A static table of (user, name)."""
    return spark.createDataFrame([(0, "ann"), (1, "bob")], "user bigint, name string")


@pytest.mark.parametrize("name", STATELESS)
def test_a_template_that_is_planned_once_gives_each_epochs_rows(
    name: str, clicks: DataFrame, batch: DataFrame, users: DataFrame, templates: Templates, jvm: Jvm
) -> None:
    """Whether its plan is kept, or has to be made for each epoch."""
    result = cut(STATELESS[name](behind(clicks), users), templates).result
    for rows in (batch.where("user < 2"), batch, batch.where("user = 1").localCheckpoint()):
        filling = [(hole, rows.select(hole.columns)) for hole in result.holes]
        found = jvm.pin_filled(result.frame, filling, 5, NOWHERE)
        wanted = templates.fill(result.frame, dict(filling), 5)
        assert found.schema == wanted.schema
        assert sorted(map(repr, found.collect())) == sorted(map(repr, wanted.collect()))


def test_a_template_with_the_time_is_planned_for_each_epoch(
    spark: SparkSession, templates: Templates, jvm: Jvm
) -> None:
    """The time is a constant of the plan."""
    hole = templates.hole_of(spark.range(1).schema)
    template = hole.select(F.unix_millis(F.current_timestamp()))
    for millis in (5, 6):
        assert jvm.pin_filled(template, [(hole, spark.range(1))], millis, NOWHERE).collect() == [(millis,)]


@pytest.mark.parametrize("is_kept", [False, True])
def test_rows_that_are_kept_are_computed_once(
    is_kept: bool, spark: SparkSession, templates: Templates, jvm: Jvm
) -> None:
    """Where a template reads them twice."""
    computed = spark.sparkContext.accumulator(0)

    def count(number: int) -> tuple[int]:
        computed.add(1)
        return (number,)

    rows = spark.createDataFrame(spark.sparkContext.range(3).map(count), "n bigint")
    hole = templates.hole_of(rows.schema)
    template = hole.where("n < 1").union(hole.where("n > 1"))
    if is_kept:
        rows.persist()
    found = jvm.pin_filled(template, [(hole, rows)], 5, NOWHERE).collect()
    rows.unpersist()
    assert sorted(found) == [(0,), (2,)]
    assert computed.value == (3 if is_kept else 6)
