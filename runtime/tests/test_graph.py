"""A program's plan, cut at its stateful operators; and what is rejected when it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from plan_world import clicks_stream, templates_of
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from binshift.errors import Unsupported
from binshift.spark.plan.catalyst import analyzed, class_name, sequence
from binshift.spark.plan.graph import Graph, Leaf, Node, Output, Segment, cut
from binshift.spark.plan.stage import Due
from binshift.spark.plan.stateful import has_state, has_watermark
from binshift.spark.stages.compiling import check_by_spark, compile_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[[DataFrame], DataFrame]


def names(nodes: Sequence[Node]) -> list[str]:
    """Numbers and kinds."""
    return [f"{number}.{class_name(node.plan).lower()}" for number, node in enumerate(nodes)]


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return clicks_stream(spark)


def cut_of(frame: DataFrame, *, complete: bool = False) -> Graph:
    """The graph of a frame."""
    return cut(frame, templates_of(frame.sparkSession), complete=complete)


def origins(segment: Segment) -> list[Leaf | Output]:
    """Where a segment's rows come from."""
    return list(segment.holes.values())


def test_one_operator(clicks: DataFrame) -> None:
    """What is before it is the stream that Spark runs, what is behind it a template over its output."""
    frame = clicks.where("amount > 3").groupBy("user").count().where("count > 1").select("count")
    graph = cut_of(frame)
    [leaf], [node] = graph.leaves, graph.nodes
    assert leaf.columns == ["user"]
    assert leaf.isStreaming
    assert class_name(node.plan) == "Aggregate"
    assert [origins(each) for each in node.inputs] == [[Leaf(0)]]
    assert origins(graph.result) == [Output(0)]
    assert graph.result.frame.schema == frame.schema
    assert not graph.result.frame.isStreaming
    assert names(graph.nodes) == ["0.aggregate"]


def test_a_window_is_computed_in_the_stream(clicks: DataFrame) -> None:
    """Spark's projection and filter for it are stateless."""
    graph = cut_of(clicks.withWatermark("ts", "1 second").groupBy(F.window("ts", "1 minute")).count())
    assert graph.leaves[0].columns == ["window"]
    assert has_watermark(graph.leaves[0])


def test_operators_are_numbered_after_their_inputs(clicks: DataFrame) -> None:
    """A second one reads the output of the first, through what is between them."""
    frame = clicks.groupBy("user").count().where("count > 1").groupBy("count").agg(F.max("user")).dropDuplicates()
    graph = cut_of(frame)
    assert names(graph.nodes) == ["0.aggregate", "1.aggregate", "2.deduplicate"]
    assert [origins(node.inputs[0]) for node in graph.nodes] == [[Leaf(0)], [Output(0)], [Output(1)]]
    assert len(graph.leaves) == 1


def test_a_stream_that_is_used_twice_is_read_once(clicks: DataFrame) -> None:
    """Equal leaves are shared, also when the analyser has renamed their columns; random ones are not."""
    even = clicks.where("amount % 2 = 0")
    graph = cut_of(even.alias("a").join(even.alias("b"), "user"))
    [node] = graph.nodes
    assert (class_name(node.plan), len(graph.leaves)) == ("Join", 1)
    assert [origins(each) for each in node.inputs] == [[Leaf(0)], [Leaf(0)]]
    assert len(cut_of(even.join(clicks, "user")).leaves) == 2
    random = clicks.withColumn("chance", F.rand())
    assert len(cut_of(random.join(random, "user")).leaves) == 2


def test_aggregations_of_the_same_rows_by_the_same_keys_are_one(clicks: DataFrame) -> None:
    """The one with all columns of the others runs, wherever it is in the program; the others' readers take theirs from it."""
    groups = clicks.groupBy("user")
    narrow = groups.agg(F.sum("amount").alias("s")).select("user", F.lit(0), "s")
    wide = groups.agg(F.count("*").alias("n"), F.sum("amount").alias("t"))
    for first, second, columns in ((narrow, wide, [(0, 2), None]), (wide, narrow, [None, (0, 2)])):
        graph = cut_of(first.union(second))
        assert names(graph.nodes) == ["0.aggregate"]
        assert [each.name() for each in sequence(graph.nodes[0].plan.output())] == ["user", "n", "t"]
        assert graph.nodes[0].spark == int(second is wide)
        assert origins(graph.result) == [Output(0, each) for each in columns]


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f.groupBy("user").agg(F.max("amount")),
        lambda f: f.groupBy("amount").agg(F.sum("amount")),
        lambda f: f.where("amount > 1").groupBy("user").agg(F.sum("amount")),
        lambda f: f.groupBy("user").agg(F.sum("amount").cast("int")),
        lambda f: (
            f.groupBy("user").agg(F.sum("amount").alias("s"), F.max("amount").alias("m")).selectExpr("user", "s + m")
        ),
    ],
)
def test_other_aggregations_are_two(make: Make, clicks: DataFrame) -> None:
    """Other functions, keys or rows are other state, also if they have some columns in common."""
    graph = cut_of(clicks.groupBy("user").agg(F.sum("amount"), F.count("*")).union(make(clicks).select("*", F.lit(1))))
    assert names(graph.nodes) == ["0.aggregate", "1.aggregate"]


def test_two_operators_side_by_side(clicks: DataFrame) -> None:
    """Their outputs meet in one segment."""
    graph = cut_of(clicks.groupBy("user").count().union(clicks.groupBy("amount").count()))
    assert names(graph.nodes) == ["0.aggregate", "1.aggregate"]
    assert origins(graph.result) == [Output(0), Output(1)]
    assert [leaf.columns for leaf in graph.leaves] == [["user"], ["amount"]]


STATELESS_BEHIND: dict[str, Make] = {
    "limit": lambda f: f.groupBy("user").count().limit(3),
    "top": lambda f: f.groupBy("user").count().orderBy(F.desc("count")).limit(3),
}


@pytest.mark.parametrize("name", STATELESS_BEHIND)
def test_the_whole_result_can_be_sorted_and_cut(name: str, clicks: DataFrame) -> None:
    """In complete mode each epoch has the whole result; otherwise these are operators on a stream."""
    frame = STATELESS_BEHIND[name](clicks)
    assert names(cut_of(frame, complete=True).nodes) == ["0.aggregate"]
    assert len(cut_of(frame).nodes) > 1


def test_a_generator_over_an_aggregate_is_stateless(clicks: DataFrame) -> None:
    """Spark's analysis puts it behind the operator."""
    graph = cut_of(clicks.groupBy("user").agg(F.explode(F.collect_list("amount")).alias("each")))
    assert names(graph.nodes) == ["0.aggregate"]
    assert graph.result.frame.columns == ["user", "each"]


def test_a_table_is_no_leaf(clicks: DataFrame, spark: SparkSession) -> None:
    """A join with a table has no state; an aggregation of the table is a part of the segment."""
    users = spark.range(3).groupBy("id").count().withColumnRenamed("id", "user")
    assert not has_state(analyzed(clicks.join(users, "user")))
    graph = cut_of(clicks.groupBy("user").agg(F.sum("amount")).join(users, "user"))
    assert (names(graph.nodes), origins(graph.result)) == (["0.aggregate"], [Output(0)])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda f: f, False),
        (lambda f: f.where("user > 1").select(F.explode(F.array("user"))), False),
        (lambda f: f.union(f), False),
        (lambda f: f.withWatermark("ts", "1 second"), False),
        (lambda f: f.sparkSession.range(3).groupBy("id").count(), False),
        (lambda f: f.groupBy("user").count(), True),
        (lambda f: f.distinct(), True),
        (lambda f: f.dropDuplicates(["user"]), True),
        (lambda f: f.join(f, "user"), True),
        (lambda f: f.select(F.sum("amount")), True),
    ],
)
def test_what_has_state(make: Make, expected: bool, clicks: DataFrame) -> None:
    """What Spark would keep state for."""
    assert has_state(analyzed(make(clicks))) == expected


def test_the_watermark_is_spark_s(clicks: DataFrame) -> None:
    """Spark's node stays at its place in the stream, one for each united stream; an event time may be dropped behind it."""
    timed = clicks.withWatermark("ts", "1 minute 30 seconds").where("ts < now()")
    united = timed.union(clicks.withWatermark("ts", "1 second"))
    for frame, nodes in ((timed, 1), (united, 2), (timed.drop("ts"), 1)):
        [leaf] = cut_of(frame.groupBy("user").count()).leaves
        assert has_watermark(leaf)
        assert str(analyzed(leaf)).count("EventTimeWatermark") == nodes
    assert not has_watermark(clicks)


def test_a_watermark_behind_an_operator_is_refused(clicks: DataFrame) -> None:
    """Nothing would use it."""
    with pytest.raises(Unsupported, match="withWatermark behind a stateful operator; call it before"):
        cut_of(clicks.groupBy("ts").count().withWatermark("ts", "2 seconds"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f.crossJoin(f.withColumnRenamed("user", "k")), "a condition left = right"),
        (
            lambda f: f.withWatermark("ts", "1 second").groupBy(F.session_window("ts", "1 minute")).count(),
            "session_window needs another key",
        ),
        (lambda f: f.groupBy("user").agg(F.median("amount")), "append emits a group when it is closed"),
    ],
)
def test_what_cannot_be_run_is_refused(make: Make, message: str, clicks: DataFrame) -> None:
    """The message names it; nothing has been written by then."""
    with pytest.raises(Unsupported, match=message):
        compile_program(make(clicks), templates_of(clicks.sparkSession), "append", 16)


@pytest.mark.parametrize(
    ("make", "mode", "condition"),
    [
        (lambda f: f.groupBy(F.window("ts", "1 minute")).count(), "append", "STREAMING_OUTPUT_MODE"),
        (
            lambda f: (
                f.groupBy("user").count().select("*", F.row_number().over(Window.partitionBy("user").orderBy("count")))
            ),
            "update",
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
        ),
        (lambda f: f.groupBy("user").agg(F.count_distinct("amount")), "update", "_LEGACY"),
    ],
)
def test_what_spark_refuses_is_refused_by_spark(make: Make, mode: str, condition: str, clicks: DataFrame) -> None:
    """Spark checks the whole program, although an epoch's result is a batch; the error is its own."""
    with pytest.raises(AnalysisException) as refused:
        check_by_spark(make(clicks), mode)
    found: Any = refused.value
    assert condition in f"{found.getCondition()}"


def test_append_mode_with_a_watermark_on_a_key_is_accepted(clicks: DataFrame) -> None:
    """Spark's own rule holds, and the compiled program ends groups."""
    windowed = clicks.withWatermark("ts", "1 second").groupBy(F.window("ts", "1 minute")).count()
    check_by_spark(windowed, "append")
    pipeline = compile_program(windowed, templates_of(clicks.sparkSession), "append", 16)
    assert [stage.stage.due for stage in pipeline.stages] == [Due.WATERMARK]
