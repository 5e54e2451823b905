"""Conditions of joins that Spark evaluates before S: the plan, run step by step in this process, gives what Spark's join gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from operator_histories import rows_of, sorted_rows
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from binshift.model import BinSet, Epoch, Worker
from binshift.operators.contract import EpochContext, EpochState
from binshift.routing import Route
from binshift.spark.plan.catalyst import analyzed, class_name, sequence
from binshift.spark.plan.routing_columns import Exchange
from binshift.spark.plan.template import Templates
from binshift.spark.session import jvm
from binshift.spark.stages.joins import JoinStage, compile_join
from binshift.store.engine.memory_store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BINS = 4
ROUTE, WORKERS = Route.initial(BINS, (Worker(0),)), (Worker(0),)
ARBITRARY = "abs(x - y) < 5 OR s LIKE concat(t, '%')"
LEFT = [(1, 1.0, "apple"), (1, 50.0, "apricot"), (2, 2.0, "pear"), (3, None, None), (None, 1.0, "none")]
RIGHT = [(1, 4.0, "app"), (1, 99.0, "ap"), (2, 90.0, "pea"), (3, 1.0, "x"), (None, 1.0, "none")]


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """The rows of both sides."""
    left = spark.createDataFrame(LEFT, "k long, x double, s string")
    return left, spark.createDataFrame(RIGHT, "j long, y double, t string")


@pytest.mark.parametrize("how", ["left", "right", "left_semi"])
@pytest.mark.parametrize("condition", [ARBITRARY, f"({ARBITRARY}) AND x < 40 AND y > x AND length(s) + length(t) > 7"])
def test_pairs_are_those_of_spark(sides: tuple[DataFrame, DataFrame], how: str, condition: str) -> None:
    """The first epoch's pairs, or matched left rows, equal those of a batch. Rows without a match stay in the state, or, if they
    fail a condition of their own side, come out alone."""
    left, right = sides
    joined = left.join(right, F.expr(f"k = j AND ({condition})"), how)
    stage, inputs = compiled(joined)
    assert stage.read_ahead is not None
    expected = joined if how == "left_semi" else left.join(right, F.expr(f"k = j AND ({condition})"))
    found = [row for row in run(stage, inputs) if how == "left_semi" or (row[2] and row[5])]
    assert sorted_rows(found) == sorted_rows([tuple(map(_bytes, row)) for row in expected.collect()])


def test_what_needs_no_second_way(sides: tuple[DataFrame, DataFrame]) -> None:
    """Comparisons between the sides, BETWEEN, conditions of one side, and an inner join's filter are evaluated without it."""
    left, right = sides
    for condition, how in (
        ("length(t) BETWEEN length(s) AND length(s) * 100", "left"),
        ("s > t AND x < 5", "full"),
        (ARBITRARY, "inner"),
    ):
        stage, _ = compiled(left.join(right, F.expr(f"k = j AND ({condition})"), how))
        assert stage.read_ahead is None


def test_keys_with_a_collation_are_bytes(sides: tuple[DataFrame, DataFrame]) -> None:
    """Spark's own rule makes bytes of them, and a null key leaves before the join where it has no match."""
    left, right = sides
    collated = left.withColumn("s", F.collate("s", "UTF8_LCASE")), right.withColumn("t", F.collate("t", "UTF8_LCASE"))
    stage, _ = compiled(collated[0].join(collated[1], F.expr("s = t"), "left"))
    assert "k0:binary" in stage.description
    _, inputs = compiled(left.join(right, F.expr("k = j")))
    assert [each.where("_c0 IS NULL").count() for each in (frame.toDF(*_numbered(frame)) for frame in inputs)] == [0, 0]


def compiled(joined: DataFrame) -> tuple[JoinStage, Sequence[DataFrame]]:
    """The stage of a join, and its inputs."""
    templates = Templates(joined.sparkSession, jvm.install(joined.sparkSession))
    node = templates.reduced(analyzed(joined))
    while class_name(node) != "Join":
        node = sequence(node.children())[0]
    inputs = [templates.frame(each) for each in sequence(node.children())]
    return compile_join(inputs, node, BINS), inputs


def run(stage: JoinStage, inputs: Sequence[DataFrame]) -> list[tuple[Any, ...]]:
    """The output of one epoch without state, with Spark between the two parts."""
    ahead, context = stage.read_ahead, EpochContext(Epoch(0), 0, 0, 0, BinSet(range(BINS)))
    assert ahead is not None
    routed = stage.route(inputs, Exchange.by_owner(ROUTE, WORKERS))
    schema = ahead.read_schema(routed.schema)
    with MemoryStore().read() as reader:
        found = list(ahead.operator.run(iter(routed.toArrow().to_batches()), EpochState(reader), context))
        table = pa.Table.from_batches(found).cast(to_arrow_schema(schema))
        assert from_arrow_schema(table.schema) == schema
        kept = ahead.applied(routed.sparkSession.createDataFrame(table, schema)).toArrow().to_batches()
        output = list(stage.operator.run(iter(kept), EpochState(reader), context))
    return [row for batch in output for row in rows_of(batch)]


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _numbered(frame: DataFrame) -> list[str]:
    return [f"_c{at}" for at in range(len(frame.columns))]
