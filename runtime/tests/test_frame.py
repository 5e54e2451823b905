"""The stateful frame against PySpark's own: every method exists or names the alternative, with Spark's schemas."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from frame_world import clicks_stream, definitions
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from binshift.errors import InvalidQuery, InvalidSettings, Unsupported
from binshift.spark.definition import Definition, replay
from binshift.spark.frame import StatefulFrame, stateful
from binshift.spark.grouped import StatefulGroupedData
from binshift.spark.unsupported import FRAME, GROUPED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDER = StructType([StructField("amount", LongType()), StructField("user", LongType())])


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


@pytest.fixture
def definition_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[StatefulFrame], Definition]:
    """The definition that a query would be started with."""
    return definitions(monkeypatch)


def _odd(frame: Any, schema: str) -> Any:
    """The rows with an odd amount; the function is an inner one, because workers cannot import a test's module."""

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in batches:
            yield each.filter(pa.compute.equal(pa.compute.bit_wise_and(each.column("amount"), 1), 1)).select(["amount"])

    return frame.mapInArrow(keep, schema)


def _odd_frames(frame: Any, schema: str) -> Any:
    def keep(frames: Iterator[Any]) -> Iterator[Any]:
        for each in frames:
            yield each[each["amount"] % 2 == 1][["amount"]]

    return frame.mapInPandas(keep, schema)


def _grown(frame: Any, by: int) -> Any:
    return frame.withColumn("amount", F.col("amount") + by)


STATELESS: dict[str, Callable[[Any, DataFrame], Any]] = {
    "alias": lambda f, users: f.alias("c").select("c.user"),
    "coalesce": lambda f, users: f.coalesce(1),
    "colRegex": lambda f, users: f.select(f.colRegex("`a.*`")),
    "crossJoin": lambda f, users: f.crossJoin(users.select("name")),
    "drop": lambda f, users: f.drop("ts", F.col("user")),
    "dropna": lambda f, users: f.dropna(subset=["amount"]),
    "fillna": lambda f, users: f.fillna({"amount": -1}),
    "filter": lambda f, users: f.filter("amount > 2"),
    "hint": lambda f, users: f.hint("broadcast").join(users.hint("broadcast"), "user"),
    "join": lambda f, users: f.join(users, ["user"], "left"),
    "mapInArrow": lambda f, users: _odd(f, "amount bigint"),
    "mapInPandas": lambda f, users: _odd_frames(f.dropna(), "amount bigint"),
    "melt": lambda f, users: f.melt("ts", ["user", "amount"], "what", "value"),
    "na": lambda f, users: f.na.fill(0).na.drop("all").na.replace(5, 50),
    "repartition": lambda f, users: f.repartition(3, "user"),
    "replace": lambda f, users: f.replace({1: 10, 2: 20}, subset=["user"]),
    "select": lambda f, users: f.select("*", F.explode(F.array(F.col("amount"), F.lit(7))).alias("each")),
    "selectExpr": lambda f, users: f.selectExpr("user + 1 AS next", "upper('a') AS a"),
    "to": lambda f, users: f.to(WIDER),
    "toDF": lambda f, users: f.toDF("a", "b", "c"),
    "transform": lambda f, users: f.transform(_grown, by=5),
    "unpivot": lambda f, users: f.unpivot(["ts"], ["user", "amount"], "what", "value"),
    "where": lambda f, users: f.where(F.col("user") == 1),
    "withColumn": lambda f, users: f.withColumn("day", F.date_trunc("day", f.ts)),
    "withColumnRenamed": lambda f, users: f.withColumnRenamed("user", "who"),
    "withColumns": lambda f, users: f.withColumns({"a": F.lit(1), "b": f["amount"] * 2}),
    "withColumnsRenamed": lambda f, users: f.withColumnsRenamed({"user": "who", "ts": "at"}),
    "withMetadata": lambda f, users: f.withMetadata("user", {"unit": "none"}),
}
"""One use of every stateless method; `__getitem__` and columns by attribute are in some."""
UNIONS = ("union", "unionAll", "unionByName")
PROPERTIES = ("columns", "dtypes", "isStreaming", "printSchema", "schema", "sparkSession")
STATEFUL = ("agg", "groupBy", "groupby", "withWatermark", "writeStream")
ONLY_BEFORE = ("coalesce",)
EXECUTED = ("join", "mapInArrow", "mapInPandas", "select")
"""These are run in the tests; for the others the plans are compared."""


def _public(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def test_every_name_of_a_dataframe_is_there_or_refused() -> None:
    """No public name of PySpark's DataFrame is missing, and none is both supported and rejected."""
    ours, refused = _public(StatefulFrame), {name for name in FRAME if not name.startswith("__")}
    assert ours | refused == _public(DataFrame)
    assert ours & refused == set()


def test_every_name_of_grouped_data_is_there_or_refused() -> None:
    """No public name of PySpark's GroupedData is missing; one is binshift's own."""
    ours = _public(StatefulGroupedData) - {"applyInArrowWithState"}
    assert ours | set(GROUPED) == _public(GroupedData)
    assert ours & set(GROUPED) == set()


def test_every_method_that_is_there_is_tested() -> None:
    """The table of uses in this file covers all methods."""
    assert {*STATELESS, *UNIONS, *PROPERTIES, *STATEFUL} == _public(StatefulFrame)


@pytest.mark.parametrize("name", sorted(_public(StatefulFrame) & _public(DataFrame)))
def test_parameters_have_pysparks_names(name: str) -> None:
    """A program that passes arguments by name finds PySpark's names, in PySpark's order."""
    ours, theirs = (inspect.getattr_static(owner, name) for owner in (StatefulFrame, DataFrame))
    assert isinstance(ours, property) == isinstance(theirs, property)
    if not isinstance(ours, property):
        wanted, found = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
        assert [(p.name, p.kind) for p in found.values()] == [(p.name, p.kind) for p in wanted.values()]


@pytest.mark.parametrize("name", sorted(FRAME))
def test_refused_names_have_a_remedy(clicks: DataFrame, name: str) -> None:
    """A rejected name raises on access, in both phases, with its name and an alternative."""
    before = stateful(clicks)
    for frame in (before, before.groupBy("user").count()):
        with pytest.raises(Unsupported, match=rf"StatefulFrame\.{name} is not supported: .{{20}}"):
            getattr(frame, name)


@pytest.mark.parametrize("name", sorted(GROUPED))
def test_refused_names_of_grouped_data_have_a_remedy(clicks: DataFrame, name: str) -> None:
    """The same holds for what follows groupBy."""
    with pytest.raises(Unsupported, match=rf"StatefulGroupedData\.{name} is not supported: .{{20}}"):
        getattr(stateful(clicks).groupBy("user"), name)


@pytest.mark.parametrize("name", sorted(STATELESS))
def test_stateless_methods_before_the_operator(clicks: DataFrame, users: DataFrame, name: str) -> None:
    """Before the operator a method returns the same schema as on the DataFrame itself."""
    use = STATELESS[name]
    found = use(stateful(clicks), users)
    assert isinstance(found, StatefulFrame)
    assert found.schema == use(clicks, users).schema


def _as_result(clicks: DataFrame) -> StatefulFrame:
    """The result of an operator, with the columns of the stream."""
    totals = stateful(clicks).groupBy("user").agg(F.max("ts").alias("ts"), F.sum("amount").alias("amount"))
    return totals.select("ts", "user", "amount")


@pytest.mark.parametrize("name", sorted(set(STATELESS) - set(ONLY_BEFORE) - set(EXECUTED)))
def test_stateless_methods_after_the_operator(
    clicks: DataFrame, batch: DataFrame, users: DataFrame, name: str, definition_of: Callable[..., Definition]
) -> None:
    """After the operator a method has the same plan on each epoch's result as on a DataFrame, and is analysed at once."""
    use = STATELESS[name]
    found = use(_as_result(clicks), users)
    assert isinstance(found, StatefulFrame)
    definition = definition_of(found)
    replayed = replay(batch, definition.after)
    assert replayed.sameSemantics(use(batch, users))
    assert replayed.columns == use(batch, users).columns == found.columns == definition.schema.names


@pytest.mark.parametrize("name", EXECUTED)
def test_replayed_methods_give_the_same_rows(
    clicks: DataFrame, batch: DataFrame, users: DataFrame, name: str, definition_of: Callable[..., Definition]
) -> None:
    """Functions, static joins and generators work in a replay, which has new frames in every epoch."""
    use = STATELESS[name]
    after = definition_of(use(_as_result(clicks), users)).after
    wanted = sorted(map(repr, use(batch, users).collect()))
    assert sorted(map(repr, replay(batch, after).collect())) == wanted != []


def test_coalesce_is_refused_after_the_operator(clicks: DataFrame) -> None:
    """Fewer tasks than workers would move state away from its worker."""
    with pytest.raises(Unsupported, match="use repartition"):
        stateful(clicks).groupBy("user").count().coalesce(1)


@pytest.mark.parametrize("name", UNIONS)
def test_unions_of_streams(clicks: DataFrame, batch: DataFrame, name: str) -> None:
    """Streams can be united before the operator, wrapped or not; static frames and results cannot."""
    frame = stateful(clicks)
    assert getattr(frame, name)(clicks).schema == clicks.schema
    assert getattr(frame, name)(stateful(clicks).where("user > 1")).schema == clicks.schema
    with pytest.raises(InvalidQuery, match="takes another stream"):
        getattr(frame, name)(batch)
    counted = frame.groupBy("user").count()
    with pytest.raises(Unsupported, match="stateful operator"):
        getattr(frame, name)(counted)
    with pytest.raises(Unsupported, match="after the stateful operator"):
        getattr(counted, name)(clicks)


def test_united_frames_agree_on_their_settings(clicks: DataFrame) -> None:
    """Frames with different settings cannot become one query."""
    with pytest.raises(InvalidSettings, match=r"\{'bins': 8\} and \{'bins': 16\}"):
        stateful(clicks, bins=8).union(stateful(clicks, bins=16))


def test_columns_of_a_frame_are_unresolved(clicks: DataFrame) -> None:
    """Columns by name, position and attribute are references by name, so that they are valid in every epoch."""
    frame = stateful(clicks)
    assert [str(c) for c in (frame.user, frame["user"], frame[1])] == [str(F.col("user"))] * 3
    assert frame[["user", "ts"]].columns == ["user", "ts"]
    assert frame[frame.user > 1].columns == frame.columns
    assert {"user", "amount", "select"} <= set(dir(frame))
    with pytest.raises(AttributeError, match="neither a method nor a column 'usr'"):
        _ = frame.usr
    with pytest.raises(AnalysisException, match="usr"):
        _ = frame["usr"]


def test_a_frame_can_be_copied_and_shown(clicks: DataFrame) -> None:
    """The names of Python's own protocols are not treated as columns."""
    frame = stateful(clicks)
    assert repr(copy.copy(frame)) == "StatefulFrame[ts: timestamp, user: bigint, amount: bigint]"
    assert not hasattr(frame, "__len__")


def test_plain_properties(clicks: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """Schema and session are those of the stream."""
    frame = stateful(clicks)
    assert (frame.columns, frame.dtypes, frame.isStreaming) == (clicks.columns, clicks.dtypes, True)
    assert frame.sparkSession is clicks.sparkSession
    frame.printSchema()
    assert "|-- user: long" in capsys.readouterr().out


def test_errors_in_later_calls_come_when_written(clicks: DataFrame) -> None:
    """A column that an epoch's result lacks fails at its line, even if Spark's plan behind it had the column."""
    counts = stateful(clicks).groupBy("user").agg(F.count("*").alias("n"))
    with pytest.raises(AnalysisException, match="amount"):
        counts.select("amount")
    with pytest.raises(AnalysisException, match="amount"):
        counts.where(F.sum("amount") > 3)


def test_an_ambiguous_join_is_explained(clicks: DataFrame, users: DataFrame) -> None:
    """A condition on a name that both sides have gets a hint, because columns of the frame are unresolved."""
    frame = stateful(clicks)
    with pytest.raises(AnalysisException) as caught:
        frame.join(users, frame.user == users.user)
    assert "join on a name" in caught.value.__notes__[0]
    joined = frame.alias("c").join(users.alias("u"), F.col("c.user") == F.col("u.user")).select("c.user", "name")
    assert joined.columns == ["user", "name"]


def test_columns_stay_typed() -> None:
    """Columns by attribute are Columns for type checkers as well."""
    assert inspect.signature(StatefulFrame.__getattr__).return_annotation in (Column, "Column")
