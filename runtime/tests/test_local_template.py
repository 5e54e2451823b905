"""Results of rows that the driver has: projections and filters need no plan of Spark, and give its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from plan_world import clicks_stream
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from stateless_calls import STATELESS, behind

from binshift.spark.plan.catalyst import analyzed, class_name
from binshift.spark.plan.graph import cut
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import Jvm, java_frame, java_session
from binshift.spark.session.standing_calls import Returned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANNED_BY_SPARK = {
    *("coalesce", "crossJoin", "explode", "hint", "join", "join by the frame", "mapInArrow", "mapInPandas", "melt"),
    *("repartition", "subquery", "union"),
}
"""Calls that are more than projections and filters."""


def _returned(jvm: Jvm, rows: DataFrame, *, stored: bool = False) -> Returned:
    """The same rows as S returns them, in two Arrow streams; ``stored``: they stay on executors."""
    session, gateway, table = rows.sparkSession, cast(Any, rows.sparkSession.sparkContext)._gateway, rows.toArrow()

    def array(*values: object) -> Any:
        made = gateway.new_array(gateway.jvm.Object, len(values))
        for at, value in enumerate(values):
            made[at] = value
        return made

    streams = gateway.jvm.java.util.ArrayList()
    streams.add(array(_stream(table.slice(0, 1)), _stream(table.slice(1))))
    kind = jvm.bridge.getClass().getClassLoader().loadClass("dev.binshift.StandingResult")
    arguments = array(
        java_session(session), java_frame(rows).schema(), streams, java_frame(rows) if stored else None, bytearray()
    )
    return Returned(kind.getConstructors()[0].newInstance(arguments), session)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


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
        returned = _returned(jvm, rows.select(hole.columns))
        found = returned.filled(result.frame, hole)
        assert returned.frame().collect() == rows.select(hole.columns).collect()
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
    hole, returned = templates.hole_of(spark.range(1).schema), _returned(jvm, spark.range(3))
    for column in (F.current_timestamp(), F.rand(1), F.monotonically_increasing_id()):
        assert returned.filled(hole.select("id", column), hole) is None
    elsewhere = _returned(jvm, spark.range(3), stored=True)
    assert elsewhere.filled(hole.select("id"), hole) is None
    assert elsewhere.frame().collect() == spark.range(3).collect()
    assert returned.filled(hole.select("id"), hole) is not None


def test_an_error_of_an_expression_is_sparks(spark: SparkSession, templates: Templates, jvm: Jvm) -> None:
    """As in a task."""
    hole, returned = templates.hole_of(spark.range(1).schema), _returned(jvm, spark.range(3))
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        returned.filled(hole.select(F.lit(1) / F.col("id")), hole)


def test_filters_alone_keep_the_rows(spark: SparkSession, templates: Templates, jvm: Jvm) -> None:
    """Also rows that are larger than what rows share."""
    rows = spark.sql("SELECT id, repeat('x', CAST(id * 30000 AS INT)) AS text FROM range(0, 6, 1, 1)")
    hole = templates.hole_of(rows.schema)
    found = _returned(jvm, rows).filled(hole.filter("id != 2"), hole)
    assert found is not None
    assert found.collect() == rows.filter("id != 2").collect()
