"""Results of rows that the driver has: projections and filters need no plan of Spark, and give its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from plan_world import clicks_stream
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from stateless_calls import STATELESS, behind

from binshift.spark.plan.catalyst import analyzed, class_name
from binshift.spark.plan.graph import cut
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANNED_BY_SPARK = {
    *("coalesce", "crossJoin", "explode", "hint", "join", "join by the frame", "mapInArrow", "mapInPandas", "melt"),
    *("repartition", "subquery", "union"),
}
"""Calls that are more than projections and filters."""


def _local(frame: DataFrame) -> DataFrame:
    """The same rows in the driver."""
    java: Any = frame._jdf
    made = cast(Any, frame.sparkSession)._jsparkSession.createDataFrame(java.collectAsList(), java.schema())
    return DataFrame(made, frame.sparkSession)


@pytest.mark.parametrize("name", STATELESS)
def test_the_result_has_sparks_rows(name: str, spark: SparkSession, templates: Templates, jvm: Jvm) -> None:
    """And its columns, names and metadata, epoch by epoch; what Spark has to plan is left to it."""
    users = spark.createDataFrame([(0, "ann"), (1, "bob")], "user bigint, name string")
    result = cut(STATELESS[name](behind(clicks_stream(spark)), users), templates).result
    for count in (6, 0, 2):
        rows = spark.sql(
            "SELECT id % 3 AS user, timestamp'2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) AS ts, "
            f"nullif(id, 4) AS amount FROM range(0, {count}, 1, 1)"
        )
        hole = next(iter(result.holes))
        found = jvm.fill_locally(result.frame, hole, _local(rows.select(hole.columns)))
        assert (found is None) == (name in PLANNED_BY_SPARK)
        if found is not None:
            wanted = templates.fill(result.frame, {hole: rows.select(hole.columns)}, 5)
            assert class_name(analyzed(found)) == "LocalRelation"
            assert [(each.name, each.dataType, each.metadata) for each in found.schema] == [
                (each.name, each.dataType, each.metadata) for each in wanted.schema
            ]
            assert list(map(repr, found.collect())) == list(map(repr, wanted.collect()))


def test_what_differs_from_time_to_time_is_left_to_spark(spark: SparkSession, templates: Templates, jvm: Jvm) -> None:
    """The current time, random numbers, and rows that are not in the driver."""
    hole, rows = templates.hole_of(spark.range(1).schema), _local(spark.range(3).select("id"))
    for column in (F.current_timestamp(), F.rand(1), F.monotonically_increasing_id()):
        assert jvm.fill_locally(hole.select("id", column), hole, rows) is None
    assert jvm.fill_locally(hole.select("id"), hole, spark.range(3)) is None
    assert jvm.fill_locally(hole.select("id"), hole, rows) is not None


def test_an_error_of_an_expression_is_sparks(spark: SparkSession, templates: Templates, jvm: Jvm) -> None:
    """As in a task."""
    hole, rows = templates.hole_of(spark.range(1).schema), _local(spark.range(3).select("id"))
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        jvm.fill_locally(hole.select(F.lit(1) / F.col("id")), hole, rows)
