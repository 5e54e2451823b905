"""Columns of any name and keys of any type in a stateful frame: as in Spark, or rejected at their line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from frame_world import clicks_stream, definitions
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from binshift.errors import InvalidQuery, Unsupported
from binshift.model import Worker
from binshift.operators.contract import BIN_COLUMN
from binshift.routing import Route
from binshift.spark.compiling import compile_stage
from binshift.spark.definition import Definition
from binshift.spark.frame import StatefulFrame, stateful

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = ("*", "amount * 2 AS `a.b`", "user AS `t``i`", "user AS `sp ace`", "amount AS `sum(x)`")
LOWER = "collate(CAST(user AS STRING), 'UTF8_LCASE')"


@pytest.fixture(scope="module")
def odd(spark: SparkSession) -> DataFrame:
    """A stream with columns whose names need quoting."""
    nested = F.struct(F.col("amount").alias("m"), F.struct(F.col("user").alias("x y")).alias("n.n")).alias("p")
    return clicks_stream(spark).selectExpr(*ODD).withColumn("p", nested)


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    """Names that differ in case are different."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


QUERIES: dict[str, Callable[[Any], Any]] = {
    "unaliased": lambda f: f.groupBy("user").agg(F.sum("p.m"), F.sum(F.col("amount") * 0.1), F.max("p.`n.n`.`x y`")),
    "computed key": lambda f: f.groupBy(F.col("amount") / 2.5).count(),
    "dots": lambda f: f.groupBy("`a.b`").agg(F.sum("`a.b`").alias("n.total")).where("`n.total` > 1").drop("zz"),
    "by the frame": lambda f: f.groupBy(f["`a.b`"]).agg(F.max(f["p"]["m"]), F.min(f.p.m)),
    "ticks": lambda f: f.groupBy("`t``i`", "sp ace").agg(F.max("`sum(x)`")).select("`t``i`", "`max(sum(x))`"),
    "methods": lambda f: f.groupBy("user").avg("`a.b`", "p.m", "`t``i`"),
    "dict": lambda f: f.groupBy("user").agg({"p.m": "max", "`a.b`": "sum", "*": "count", "amount": "avg"}),
    "empty": lambda f: f.groupBy("user").agg(F.sum("amount").alias("")),
    "twice": lambda f: f.groupBy("user").agg(F.sum("amount"), F.sum("amount")),
    "after": lambda f: (
        f.groupBy("user").agg(F.sum("p.m")).withColumn("a.b", F.col("`sum(p.m)`")).selectExpr("`a.b` + 1")
    ),
    "struct": lambda f: f.groupBy(F.struct("`a.b`", F.lit(1))).count().withColumnRenamed("count", "c.c"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_results_have_sparks_names(odd: DataFrame, name: str) -> None:
    """Names, types and order are those of the same query in Spark, even for names that need quoting."""
    found, wanted = QUERIES[name](stateful(odd)).schema, QUERIES[name](odd).schema
    assert [(f.name, f.dataType) for f in found] == [(f.name, f.dataType) for f in wanted]


@pytest.mark.usefixtures("case_sensitive")
def test_names_that_differ_in_case_follow_spark(odd: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """With spark.sql.caseSensitive, a query over `USER` and `user` is compiled like any other."""
    frame = stateful(odd.withColumn("USER", F.col("amount"))).groupBy("user").agg(F.sum("USER"), F.max("user"))
    stage = compile_stage(definitions(monkeypatch)(frame), "update")
    assert "sum(USER)" in stage.description
    assert frame.columns == ["user", "sum(USER)", "max(user)"]


def _state(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    return state, state


def _keyed(frame: DataFrame, *keys: str | Column) -> StatefulFrame:
    return (
        stateful(frame).groupBy(*keys).applyInArrowWithState(_state, "`o.o` long", "`st x` long", "update", "NoTimeout")
    )


def test_rows_of_any_name_reach_the_function(
    odd: DataFrame, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F numbers the columns, the input last; the operator knows their names and the keys among them."""
    found: Definition = definitions(monkeypatch)(_keyed(odd.withColumn(BIN_COLUMN, F.lit("x")), "`a.b`", "P", "`t``i`"))
    stage: Any = compile_stage(found, "update")
    assert stage.operator.keys.names == ["a.b", "p", "t`i"]
    assert stage.operator.rows.names == found.source.columns
    batch = spark.createDataFrame([], found.source.schema)
    routed = stage.route(batch, Route.initial(16, [Worker(0)]), (0,))
    assert routed.columns[-len(batch.columns) :] == [f"c{at}" for at in range(len(batch.columns))]
    assert routed.columns.count(BIN_COLUMN) == 1


@pytest.mark.parametrize(
    ("key", "type"),
    [
        (LOWER, "string collate UTF8_LCASE"),
        (f"named_struct('x', {LOWER})", "struct<x:string collate UTF8_LCASE>"),
        (f"array({LOWER})", "array<string collate UTF8_LCASE>"),
        ("map(user, user)", "map<bigint,bigint>"),
    ],
)
def test_keys_that_are_not_equal_as_their_bytes_are_refused(odd: DataFrame, key: str, type: str) -> None:
    """Keys that Spark treats as equal by other rules than their bytes could be in two bins."""
    with pytest.raises(Unsupported, match=f"groups by 'c', a key of type {type};"):
        _keyed(odd.withColumn("c", F.expr(key)), "c")


def test_rows_with_two_columns_of_one_name_are_refused(odd: DataFrame) -> None:
    """An Arrow table identifies columns by name."""
    with pytest.raises(InvalidQuery, match=r"several columns named \['amount'\]"):
        _keyed(odd.select("*", "amount"), "user")
