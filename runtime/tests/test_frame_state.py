"""The stateful operator of a frame: keys, aggregates, watermark, state functions; and what is rejected at its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from frame_world import clicks_stream, definitions
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from binshift.errors import InvalidQuery, InvalidSettings, Unsupported
from binshift.spark.definition import ArrowState, Definition, GroupedAggregation
from binshift.spark.frame import StatefulFrame, stateful
from binshift.spark.streaming_plan import has_watermark, state_nodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return clicks_stream(spark)


@pytest.fixture
def definition_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[StatefulFrame], Definition]:
    """The definition that a query would be started with."""
    return definitions(monkeypatch)


untyped: Any = stateful
"""For calls that a type checker rejects as well."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda clicks, rows: untyped(rows), "not a stream"),
        (lambda clicks, rows: untyped(clicks.groupBy("user").count()), r"\(Aggregate\)"),
        (lambda clicks, rows: untyped(clicks.dropDuplicates(["user"])), r"\(Deduplicate\)"),
        (lambda clicks, rows: untyped(clicks.join(clicks.select("user"), "user")), r"\(Join\)"),
        (lambda clicks, rows: untyped(clicks.limit(3)), r"\(GlobalLimit\)"),
        (lambda clicks, rows: untyped(clicks).select(F.sum("amount")), r"\(Aggregate\)"),
        (lambda clicks, rows: untyped(clicks).join(clicks, "user"), "not yet between two streams"),
        (lambda clicks, rows: untyped(clicks).join(untyped(clicks), "user"), "not yet between two streams"),
        (lambda clicks, rows: untyped(clicks).groupBy("user").count().groupBy("count"), "one of them"),
        (lambda clicks, rows: untyped(clicks).groupBy("user").count().select(F.max("count")), "second stateful"),
        (lambda clicks, rows: untyped(clicks).groupBy(F.session_window("ts", "1 minute")).count(), "session_window"),
        (lambda clicks, rows: untyped(clicks).writeStream, "no stateful operator"),
        (lambda clicks, rows: untyped(clicks).hint("coalesce", 1), "hints are broadcast"),
        (lambda clicks, rows: untyped(clicks).mapInArrow(iter, "amount bigint", barrier=True), "leave it out"),
    ],
)
def test_what_cannot_be_is_refused_when_written(
    clicks: DataFrame, spark: SparkSession, make: Callable[..., object], message: str
) -> None:
    """Spark state in the stream, a second operator and similar calls are rejected at their own line."""
    with pytest.raises(Unsupported, match=message):
        make(clicks, spark.range(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda clicks: untyped(untyped(clicks)), "call it once"),
        (lambda clicks: untyped("clicks"), "got a str"),
        (lambda clicks: untyped(clicks).groupBy(7), "positions 1 .. 3"),
        (lambda clicks: untyped(clicks).groupBy("user").agg(), "agg got 'nothing'"),
        (lambda clicks: untyped(clicks).groupBy("user").agg("amount"), "agg got 'amount'"),
        (lambda clicks: untyped(clicks).agg(), "agg got 'nothing'"),
        (
            lambda clicks: (
                untyped(clicks).groupBy().applyInArrowWithState(print, "a int", "a int", "update", "NoTimeout")
            ),
            "needs keys",
        ),
        (lambda clicks: untyped(clicks).join("users"), "join got a str"),
        (lambda clicks: untyped(clicks).transform(lambda f: 1), "returned a int"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(clicks: DataFrame, make: Callable[..., object], message: str) -> None:
    """The error names the argument."""
    with pytest.raises(InvalidQuery, match=message):
        make(clicks)


def test_settings_are_checked_at_once(clicks: DataFrame) -> None:
    """A mistyped keyword fails where it is written."""
    with pytest.raises(InvalidSettings, match="did you mean 'batch_size'"):
        stateful(clicks, batchsize=3)


AGGREGATIONS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda g: g.agg(F.count("*").alias("n"), F.sum("amount")),
    "dict": lambda g: g.agg({"amount": "mean", "ts": "max"}),
    "dict of all": lambda g: g.agg({"*": "count"}),
    "count": lambda g: g.count(),
    "sum of all": lambda g: g.sum(),
    "avg": lambda g: g.avg("amount"),
    "mean": lambda g: g.mean("amount", "user"),
    "min": lambda g: g.min("amount"),
    "max": lambda g: g.max(),
}


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_aggregations_have_sparks_columns(clicks: DataFrame, name: str) -> None:
    """Names and types of the result are those of the same aggregation in Spark."""
    use, keys = AGGREGATIONS[name], (F.window("ts", "1 minute"), "user")
    found = use(stateful(clicks).groupBy(*keys)).schema
    assert [(f.name, f.dataType) for f in found] == [(f.name, f.dataType) for f in use(clicks.groupBy(*keys)).schema]


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_aggregations_of_all_rows_have_sparks_columns(clicks: DataFrame, name: str) -> None:
    """Without keys there is one group, whose columns are the aggregates alone."""
    use = AGGREGATIONS[name]
    assert use(stateful(clicks).groupBy()).schema == use(clicks.groupBy()).schema
    if name not in ("count", "sum of all", "avg", "mean", "min", "max"):
        assert use(stateful(clicks)).schema == use(clicks).schema


@pytest.mark.parametrize("keys", [("user", "amount"), (["user", "amount"],), (2, 3), ("column", "amount")])
def test_keys_are_given_as_in_pyspark(
    clicks: DataFrame, keys: tuple[Any, ...], definition_of: Callable[..., Definition]
) -> None:
    """Names, a list, positions and columns mean the same keys."""
    given = [F.col("user") if key == "column" else key for key in keys]
    definition = definition_of(stateful(clicks, bins=64).groupby(*given).count())
    assert isinstance(definition.operator, GroupedAggregation)
    assert [str(c) for c in definition.operator.group_columns] == [str(F.col("user")), str(F.col("amount"))]
    assert definition.settings.bins == 64
    assert definition.schema.names == ["user", "amount", "count"]


def test_columns_of_the_dataframe_itself_are_taken(clicks: DataFrame) -> None:
    """A program that took columns from its DataFrame works after the one changed line."""
    assert stateful(clicks).where(clicks.user > 1).groupBy(clicks.user).agg(F.sum(clicks.amount)).columns == [
        "user",
        "sum(amount)",
    ]


def test_the_watermark_is_spark_s(clicks: DataFrame, definition_of: Callable[..., Definition]) -> None:
    """Spark's node stays at its place in the stream, on this frame or on the DataFrame; one for each united stream."""
    ours = stateful(clicks).withWatermark("ts", "1 minute 30 seconds").where("ts < now()")
    theirs = stateful(clicks.withWatermark("ts", "1 minute 30 seconds").where("ts < now()"))
    united = ours.union(clicks.withWatermark("ts", "1 second"))
    for frame, nodes in ((ours, 1), (theirs, 1), (united, 2), (ours.drop("ts"), 1)):
        source = definition_of(frame.groupBy("user").count()).source
        assert (state_nodes(source), has_watermark(source)) == ([], True)
        assert str(source._jdf.queryExecution().analyzed()).count("EventTimeWatermark") == nodes
    assert not has_watermark(clicks)


def test_append_mode_needs_a_watermark_on_a_key(clicks: DataFrame, definition_of: Callable[..., Definition]) -> None:
    """Spark's own rule about append holds."""
    with pytest.raises(InvalidQuery, match="without watermark"):
        stateful(clicks).groupBy(F.window("ts", "1 minute")).count().writeStream.format("noop").start()
    windowed = stateful(clicks).withWatermark("ts", "1 second").groupBy(F.window("ts", "1 minute")).count()
    windowed.writeStream.format("noop").start(checkpointLocation="/nowhere")


@pytest.mark.parametrize(
    ("column", "delay", "error"),
    [
        ("nope", "1 second", AnalysisException),
        ("user", "1 second", AnalysisException),
        ("ts", "soon", AnalysisException),
        ("ts", "-1 second", IllegalArgumentException),
    ],
)
def test_a_wrong_watermark_is_refused_by_spark(
    clicks: DataFrame, column: str, delay: str, error: type[Exception]
) -> None:
    """Spark's own rules decide about column and interval."""
    with pytest.raises(error):
        stateful(clicks).withWatermark(column, delay)


def test_a_second_watermark_is_refused(clicks: DataFrame) -> None:
    """Spark would reject a second watermark in its first batch; behind the operator nothing uses one."""
    with pytest.raises(Unsupported, match="there is one already"):
        stateful(clicks.withWatermark("ts", "1 second")).withWatermark("ts", "2 seconds")
    with pytest.raises(Unsupported, match="call it before"):
        stateful(clicks).groupBy("ts").count().withWatermark("ts", "2 seconds")


def _totals(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    return state, state


def _arrow(frame: StatefulFrame, **changes: Any) -> StatefulFrame:
    arguments: dict[str, Any] = {
        "func": _totals,
        "outputStructType": "user bigint, total bigint",
        "stateStructType": StructType([StructField("total", LongType())]),
        "outputMode": "Update",
        "timeoutConf": "NoTimeout",
    }
    keys = [key() if callable(key) else key for key in changes.get("keys", ["user"])]
    arguments |= {name: value for name, value in changes.items() if name != "keys"}
    return frame.groupBy(*keys).applyInArrowWithState(**arguments)


def test_apply_in_arrow_is_recorded(clicks: DataFrame, definition_of: Callable[..., Definition]) -> None:
    """Function, keys and both schemas reach the definition; later calls are analysed on the declared output."""
    definition = definition_of(_arrow(stateful(clicks)).select((F.col("total") + 1).alias("more")))
    operator = definition.operator
    assert isinstance(operator, ArrowState)
    assert (operator.func, [str(k) for k in operator.keys]) == (_totals, [str(F.col("user"))])
    assert operator.output_schema.names == ["user", "total"]
    assert (operator.state_schema.names, operator.output_mode) == (["total"], "update")
    assert definition.schema.names == ["more"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"timeoutConf": "EventTimeTimeout"}, Unsupported, "EventTimeTimeout"),
        ({"outputMode": "complete"}, Unsupported, "use 'update'"),
        ({"outputMode": "replace"}, InvalidQuery, "'append' or 'update'"),
        ({"func": 3}, InvalidQuery, "not a function"),
        ({"outputStructType": "bigint"}, InvalidQuery, "not a schema"),
        ({"outputStructType": 3}, InvalidQuery, "not a schema"),
        (
            {"stateStructType": StructType([StructField("user", StringType())])},
            InvalidQuery,
            r"share the names \['user'\]",
        ),
        ({"keys": [lambda: F.col("user") + 1]}, Unsupported, "withColumn first"),
        ({"keys": [lambda: (F.col("user") + 1).alias("user")]}, Unsupported, "withColumn first"),
        ({"keys": ["nope"]}, AnalysisException, "nope"),
    ],
)
def test_apply_in_arrow_refuses(
    clicks: DataFrame, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Every argument that cannot work is rejected at the call."""
    with pytest.raises(error, match=message):
        _arrow(stateful(clicks), **changes)


def test_output_modes_of_operator_and_writer_agree(clicks: DataFrame) -> None:
    """Two different output modes are a mistake in the program."""
    with pytest.raises(InvalidQuery, match="must be the same"):
        _arrow(stateful(clicks)).writeStream.format("noop").outputMode("append").start(checkpointLocation="/nowhere")


def test_window_functions_are_refused_by_spark(clicks: DataFrame) -> None:
    """An operation that streams do not support is not accepted just because an epoch's result is a batch."""
    from pyspark.sql import Window

    ranked = F.row_number().over(Window.partitionBy("user").orderBy("count"))
    numbered = stateful(clicks).groupBy("user").count().select("*", ranked)
    with pytest.raises(InvalidQuery, match="NON_TIME_WINDOW"):
        numbered.writeStream.format("noop").outputMode("update").start(checkpointLocation="/nowhere")
