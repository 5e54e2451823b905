"""Templates: what is behind an operator is analysed and planned once, and filled in with the rows of each epoch, as Spark would run it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from plan_world import clicks_stream
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from stateless_calls import STATELESS, behind

from binshift.spark.plan.catalyst import analyzed, sequence
from binshift.spark.plan.graph import cut
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import Jvm
from binshift.spark.stages.compiling import compile_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2024, 3, 1, 12, tzinfo=UTC)
NOWHERE = ("executor_nowhere_0",)


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
def test_what_is_behind_the_operator_gives_the_same_rows(
    name: str, clicks: DataFrame, batch: DataFrame, users: DataFrame, templates: Templates
) -> None:
    """With an epoch's rows it has the rows and the columns of the same calls on a frame."""
    use, rows = STATELESS[name], batch.select("user", "ts", "amount")
    frame = use(behind(clicks), users)
    result = cut(frame, templates).result
    filled = templates.fill(result.frame, {hole: rows.select(hole.columns) for hole in result.holes})
    wanted = use(rows, users)
    assert frame.columns == result.frame.columns == filled.columns == wanted.columns
    assert [f.metadata for f in filled.schema] == [f.metadata for f in frame.schema]
    assert sorted(map(repr, filled.collect())) == sorted(map(repr, wanted.collect())) != []


def test_filling_keeps_ids_and_goes_by_position(spark: SparkSession, templates: Templates) -> None:
    """Names of the filled-in frame do not matter, even if several columns have the same one."""
    hole = templates.hole_of(spark.sql("SELECT 1 AS a, 'x' AS `b.c`, 2 AS a").schema)
    rows = spark.sql("SELECT 5 AS z, 'y' AS z, 6 AS z")
    filled = templates.fill(hole, {hole: rows})
    ids = [[column.exprId().id() for column in sequence(analyzed(each).output())] for each in (hole, filled)]
    assert ids[0] == ids[1]
    assert filled.columns == ["a", "b.c", "a"]
    assert [tuple(row) for row in filled.collect()] == [(5, "y", 6)]


def test_several_holes(spark: SparkSession, templates: Templates) -> None:
    """Each gets its own rows, wherever it is used."""
    holes = [templates.hole_of(spark.range(1).schema) for _ in range(2)]
    template = holes[0].union(holes[1]).union(holes[0])
    filled = templates.fill(template, {holes[0]: spark.range(1), holes[1]: spark.range(5, 6)})
    assert sorted(row[0] for row in filled.collect()) == [0, 0, 5]
    assert template.collect() == []


def test_a_template_in_a_template_is_filled_with_its_own_time(spark: SparkSession, templates: Templates) -> None:
    """The current time stays open until a time is given; then it is the batch's."""
    hole = templates.hole_of(spark.range(1).schema)
    template = hole.select(F.unix_millis(F.current_timestamp()), F.current_date() > F.lit("2024-02-29").cast("date"))
    outer = templates.fill(template, {hole: hole})
    for millis in (round(AT.timestamp() * 1000), 5):
        filled = templates.fill(outer, {hole: spark.range(1)}, millis)
        assert [tuple(row) for row in filled.collect()] == [(millis, millis > 5)]


def test_columns_that_are_never_null_stay_so(clicks: DataFrame, batch: DataFrame, templates: Templates) -> None:
    """They are in the result what they are in an aggregation of one epoch's rows."""

    def use(frame: DataFrame) -> DataFrame:
        return frame.groupBy("user").agg(F.count("*").alias("n"), F.struct(F.lit(1)).alias("one"), F.max("amount"))

    found = _compiled(use(clicks), templates).result.schema
    assert found == use(batch).schema
    assert [field.nullable for field in found] == [True, False, False, True]


AGGREGATIONS: dict[str, Callable[[Any], DataFrame]] = {
    "columns": lambda g: g.agg(F.count("*").alias("n"), F.sum("amount")),
    "dict": lambda g: g.agg({"amount": "mean", "ts": "max"}),
    "dict of all": lambda g: g.agg({"*": "count"}),
    "count": lambda g: g.count(),
    "sum of all": lambda g: g.sum(),
    "mean": lambda g: g.mean("amount", "user"),
    "min": lambda g: g.min("amount"),
    "max": lambda g: g.max(),
}
ODD = ("*", "amount * 2 AS `a.b`", "user AS `t``i`", "user AS `sp ace`", "amount AS `sum(x)`")
QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "unaliased": lambda f: f.groupBy("user").agg(F.sum("p.m"), F.sum(F.col("amount") * 0.1), F.max("p.`n.n`.`x y`")),
    "computed key": lambda f: f.groupBy(F.col("amount") / 2.5).count(),
    "dots": lambda f: f.groupBy("`a.b`").agg(F.sum("`a.b`").alias("n.total")).where("`n.total` > 1").drop("zz"),
    "by the frame": lambda f: f.groupBy(f["`a.b`"]).agg(F.max(f["p"]["m"]), F.min(f.p.m)),
    "ticks": lambda f: f.groupBy("`t``i`", "sp ace").agg(F.max("`sum(x)`")).select("`t``i`", "`max(sum(x))`"),
    "positions": lambda f: f.groupBy(2, 3).count(),
    "empty": lambda f: f.groupBy("user").agg(F.sum("amount").alias("")),
    "twice": lambda f: f.groupBy("user").agg(F.sum("amount"), F.sum("amount")),
    "twice in the stream": lambda f: f.select("*", f.amount).groupBy("user").agg(F.sum(f.amount)),
    "after": lambda f: (
        f.groupBy("user").agg(F.sum("p.m")).withColumn("a.b", F.col("`sum(p.m)`")).selectExpr("`a.b` + 1")
    ),
    "struct": lambda f: f.groupBy(F.struct("`a.b`", F.lit(1))).count().withColumnRenamed("count", "c.c"),
    "distinct": lambda f: f.sparkSession.sql("SELECT DISTINCT user, `a.b` FROM {f}", f=f),
    "window": lambda f: f.groupBy(F.window("ts", "1 minute"), "user").count().select("window.end", "count"),
    "sql": lambda f: f.sparkSession.sql("SELECT user, max(amount) FROM {f} GROUP BY user HAVING count(*) > 1", f=f),
}


def _compiled(frame: DataFrame, templates: Templates) -> Pipeline:
    return compile_program(frame, templates, "update", 16)


def _shape(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema]


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_aggregations_have_sparks_columns(name: str, clicks: DataFrame, templates: Templates) -> None:
    """With keys, and of all rows, names and types of the result are those of the program's frame."""
    for keys in ((F.window("ts", "1 minute"), "user"), ()):
        frame = AGGREGATIONS[name](clicks.groupBy(*keys))
        assert _shape(_compiled(frame, templates).result) == _shape(frame)


@pytest.mark.parametrize("name", QUERIES)
def test_results_have_sparks_columns(name: str, clicks: DataFrame, templates: Templates) -> None:
    """Names, types and order are those of the program's frame, for columns of any name and however keys are given."""
    nested = F.struct(F.col("amount").alias("m"), F.struct(F.col("user").alias("x y")).alias("n.n")).alias("p")
    frame = QUERIES[name](clicks.selectExpr(*ODD).withColumn("p", nested))
    assert _shape(_compiled(frame, templates).result) == _shape(frame)


def test_names_that_differ_in_case_follow_spark(spark: SparkSession, clicks: DataFrame, templates: Templates) -> None:
    """With spark.sql.caseSensitive, a query over `USER` and `user` is compiled like any other."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        frame = clicks.withColumn("USER", F.col("amount")).groupBy("user").agg(F.sum("USER"), F.max("user"))
        pipeline = _compiled(frame, templates)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert "sum(USER)" in pipeline.stages[0].stage.description
    assert pipeline.result.columns == ["user", "sum(USER)", "max(user)"]


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
