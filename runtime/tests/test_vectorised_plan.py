"""Vectorised functions in Spark's plan: found and compiled, or rejected with an alternative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from plan_world import clicks_stream, started_queries, templates_of
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

import binshift
from binshift.errors import InvalidQuery, Unsupported
from binshift.model import Worker
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.group_states import GroupStates
from binshift.operators.timed_states import Timeout
from binshift.operators.vectorised import VectorisedState
from binshift.operators.vectorised_timeouts import TimedVectorisedState
from binshift.routing import Route
from binshift.spark.plan.catalyst import analyzed
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.plan.stage import Due
from binshift.spark.plan.stateful import has_state
from binshift.spark.stages.compiling import compile_program
from binshift.spark.stages.vectorised import Vectorised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOWER = "collate(CAST(user AS STRING), 'UTF8_LCASE')"


def unchanged(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """A function of many keys."""
    return state, state


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return clicks_stream(spark)


def applied(frame: DataFrame, **changes: Any) -> DataFrame:
    """A query around a function."""
    arguments: dict[str, Any] = {
        "func": binshift.vectorised(unchanged),
        "outputStructType": "user bigint, total bigint",
        "stateStructType": StructType([StructField("total", LongType())]),
        "outputMode": "Update",
        "timeoutConf": "NoTimeout",
    }
    keys: list[str | Column] = changes.pop("keys", ["user"])
    return frame.groupBy(*keys).applyInPandasWithState(**(arguments | changes))


def compiled(frame: DataFrame, mode: str = "update") -> Pipeline:
    """The compiled query."""
    return compile_program(frame, templates_of(frame.sparkSession), mode, 16)


def operator(pipeline: Pipeline) -> VectorisedState:
    """Its operator."""
    found = pipeline.stages[0].operator
    assert isinstance(found, VectorisedState)
    return found


def test_the_function_and_its_schemas_are_found(clicks: DataFrame) -> None:
    """They are PySpark's arguments; what follows is analysed on the declared output."""
    pipeline = compiled(applied(clicks).select((F.col("total") + 1).alias("more")))
    found = operator(pipeline)
    assert found.function is unchanged
    assert (found.keys.names, found.rows.names) == (["user"], ["ts", "user", "amount"])
    assert (pipeline.stages[0].name, pipeline.result.columns) == ("0.applyInPandasWithState", ["more"])
    assert pipeline.stages[0].merged.columns == ["user", "total"]
    assert "total:bigint" in pipeline.stages[0].stage.description
    assert has_state(analyzed(applied(clicks)))


def test_a_function_may_refer_to_much(clicks: DataFrame) -> None:
    """PySpark makes a broadcast variable of a pickled function of more than a megabyte."""
    much = bytes(range(256)) * (1 << 13)

    def heavy(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        return (state, state) if much else (rows, rows)

    assert operator(compiled(applied(clicks, func=binshift.vectorised(heavy)))).function is heavy


def test_several_functions_are_told_apart(clicks: DataFrame) -> None:
    """Each plan has its own."""
    functions = [lambda keys, rows, state, n=n: (state, state) for n in range(3)]
    frames = [applied(clicks, func=binshift.vectorised(each)) for each in functions]
    assert [operator(compiled(frame)).function for frame in frames] == functions


def test_spark_itself_cannot_call_it() -> None:
    """The message names binshift's writer."""
    with pytest.raises(Unsupported, match=r"binshift\.writeStream"):
        binshift.vectorised(unchanged)((1,), iter(()), None)
    with pytest.raises(Unsupported, match=r"binshift\.writeStream"):
        object.__new__(Vectorised)((1,), iter(()), None)


def test_a_function_of_one_key_is_called_for_each(clicks: DataFrame) -> None:
    """An ordinary function is carried to the tasks as PySpark has pickled it."""

    def once_a_key(key: Any, frames: Any, state: Any) -> Any:
        return iter([])

    found = compiled(applied(clicks, func=once_a_key)).stages[0].operator
    assert isinstance(found, GroupStates)
    assert (found.keys.names, found.timeout, found.late) == (["user"], Timeout.NONE, False)


def test_a_function_that_pyspark_broadcasts_is_refused(clicks: DataFrame) -> None:
    """The message has the reason."""
    much = bytes(1 << 21)

    def once_a_key(key: Any, frames: Any, state: Any) -> Any:
        return iter([much])

    with pytest.raises(Unsupported, match=r"broadcast variables, or is itself larger than a megabyte"):
        compiled(applied(clicks, func=once_a_key))


@pytest.mark.parametrize("given", [3, None, "f"])
def test_only_functions_can_be_vectorised(given: Any) -> None:
    """The error shows the argument."""
    with pytest.raises(InvalidQuery, match="not a function"):
        binshift.vectorised(given)


@pytest.mark.parametrize(
    ("timeout", "late", "due"),
    [("ProcessingTimeTimeout", False, Due.CLOCK), ("EventTimeTimeout", True, Due.WATERMARK)],
)
def test_timeouts_reach_the_operator(timeout: str, late: bool, due: Due, clicks: DataFrame) -> None:
    """Rows can be late with timeouts of event time only, and only these owe an epoch when the watermark has moved."""
    stage = compiled(applied(clicks.withWatermark("ts", "1 second"), timeoutConf=timeout)).stages[0]
    found = stage.operator
    assert isinstance(found, TimedVectorisedState)
    assert (found.timeout.value, found.late, stage.stage.due) == (timeout, late, due)


@pytest.mark.parametrize("name", ["timeout", "timed_out", "now"])
def test_columns_of_timeouts_are_not_columns_of_states(name: str, clicks: DataFrame) -> None:
    """The function could not distinguish them."""
    state = StructType([StructField(name, LongType())])
    with pytest.raises(InvalidQuery, match=rf"several columns named \['{name}'\]"):
        compiled(applied(clicks, stateStructType=state, timeoutConf="ProcessingTimeTimeout"))


def test_output_modes_of_operator_and_writer_agree(clicks: DataFrame) -> None:
    """Two different output modes are a mistake in the program."""
    with pytest.raises(InvalidQuery, match="output mode 'update', and the writer 'append'"):
        compiled(applied(clicks), "append")
    assert compiled(applied(clicks, outputMode="append"), "append")


@pytest.mark.parametrize(
    "changes",
    [
        {"outputMode": "complete"},
        {"outputMode": "replace"},
        {"outputStructType": 3},
        {"timeoutConf": "Sometimes"},
        {"keys": ["nope"]},
    ],
)
def test_what_pyspark_refuses_is_refused_by_pyspark(clicks: DataFrame, changes: dict[str, Any]) -> None:
    """Its own checks of the arguments apply."""
    with pytest.raises((AssertionError, PySparkException)):
        compiled(applied(clicks, **changes))


def test_names_must_be_different(clicks: DataFrame) -> None:
    """An Arrow table identifies columns by name."""
    with pytest.raises(InvalidQuery, match=r"keys and state .* several columns named \['user'\]"):
        compiled(applied(clicks, stateStructType=StructType([StructField("user", StringType())])))


@pytest.mark.parametrize(
    ("key", "type"),
    [
        (LOWER, "string collate UTF8_LCASE"),
        (f"named_struct('x', {LOWER})", "struct<x:string collate UTF8_LCASE>"),
        (f"array({LOWER})", "array<string collate UTF8_LCASE>"),
    ],
)
def test_keys_that_are_not_equal_as_their_bytes_are_refused(clicks: DataFrame, key: str, type: str) -> None:
    """Keys that Spark treats as equal by other rules than their bytes could be in two bins."""
    with pytest.raises(Unsupported, match=f"groups by 'c', a key of type {type};"):
        compiled(applied(clicks.withColumn("c", F.expr(key)), keys=["c"]))


def test_a_map_is_refused_as_key(clicks: DataFrame) -> None:
    """By binshift, if Spark accepts it."""
    with pytest.raises((Unsupported, AnalysisException), match=r"map<bigint,bigint>|MAP"):
        compiled(applied(clicks.withColumn("c", F.expr("map(user, user)")), keys=["c"]))


def test_a_key_is_a_column_of_the_rows(clicks: DataFrame) -> None:
    """Spark itself refuses a computed one; `withColumn` makes it a column."""
    with pytest.raises(AnalysisException, match="odd"):
        compiled(applied(clicks, keys=[(F.col("user") % 2).alias("odd")]))
    found = operator(compiled(applied(clicks.withColumn("odd", F.col("user") % 2), keys=["odd", "amount"])))
    assert found.keys.names == ["odd", "amount"]


def test_rows_of_any_name_reach_the_function(clicks: DataFrame, spark: SparkSession) -> None:
    """F numbers the columns, the input last; the operator knows their names and the keys among them."""
    odd = clicks.selectExpr("amount AS `sp ace`", "user AS P", "ts").withColumn(BIN_COLUMN, F.lit("x"))
    frame = applied(odd, keys=["sp ace", "p"], outputStructType="`o.o` long", stateStructType="`st x` long")
    [stage] = compiled(frame).stages
    found: Any = stage.operator
    assert (found.keys.names, found.rows.names) == (["sp ace", "P"], odd.columns)
    routed = stage.routed(Route.initial(16, [Worker(0)]), (Worker(0),))
    assert routed.columns[-len(odd.columns) :] == [f"c{at}" for at in range(len(odd.columns))]
    assert routed.columns.count(BIN_COLUMN) == 1


def test_a_query_is_started_like_any_other(clicks: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own check of the stream accepts the node."""
    started = started_queries(monkeypatch)
    binshift.writeStream(applied(clicks)).format("noop").outputMode("update").start()
    assert started[0].frame.columns == ["user", "total"]
