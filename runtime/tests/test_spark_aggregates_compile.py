"""A compiled aggregation: what it rejects, when its groups are closed, and when two of them can share a state."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pandas as pd
import pytest
from aggregate_fold import DDL, simple, tumbling
from compiled import Compiled, compiled
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BinaryType

from binshift.errors import Unsupported
from binshift.operators.merge import Merge
from binshift.spark.plan.eventtime import WATERMARK_KEY
from binshift.spark.stages.aggregates import difference


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], DDL)


def marked(frame: DataFrame, column: str) -> DataFrame:
    """A static frame with an event time; `withWatermark` marks streams only."""
    return frame.withMetadata(column, {WATERMARK_KEY: 5})


def test_expiry_is_the_first_millisecond_that_is_not_before_the_end(spark: SparkSession) -> None:
    """Groups are closed if and only if Spark's ``end <= watermark`` holds in microseconds."""
    moments = ["1969-12-31 23:59:59.999001Z", "1970-01-01 00:00:00.000001Z", "2024-01-01 00:00:00Z", None]
    frame = spark.createDataFrame([(m,) for m in moments], "t string").select(F.to_timestamp("t").alias("ts"))
    frame = marked(frame, "ts")
    made = Compiled(frame, ["ts"], [F.count("*")], output_mode="append")
    assert made.plan.event_time_key is not None
    partial = made.partial(frame).select(F.unix_micros("k0"), made.plan.event_time_key)
    found = {row[0]: row[1] for row in partial.collect()}
    new_year = 1_704_067_200_000
    assert found == {-999: 0, 1: 1, new_year * 1000: new_year, None: None}
    windowed = Compiled(frame, [F.window(frame["ts"], "1 second").alias("w")], [F.count("*")], "append")
    assert windowed.plan.event_time_key is not None
    ends = windowed.partial(frame).select(windowed.plan.event_time_key).collect()
    assert {row[0] for row in ends} == {0, 1000, new_year + 1000}


def test_which_key_decides_that_a_group_is_over(spark: SparkSession, frame: DataFrame) -> None:
    """It is the time column or a window over it, and none in complete mode. Streams have their own mark."""
    ts = marked(frame, "ts")
    plans = {
        "column": compiled(ts, ["i", "ts"], [F.count("*")], "append"),
        "window": compiled(marked(frame, "ntz"), ["i", F.window("ntz", "1 hour")], [F.count("*")], "append"),
        "other": compiled(ts, ["i", F.window("ntz", "1 hour")], [F.count("*")]),
        "complete": compiled(ts, ["ts"], [F.count("*")], "complete"),
        "none": compiled(frame, ["ts"], [F.count("*")]),
    }
    assert {name for name, plan in plans.items() if plan.event_time_key is not None} == {"column", "window"}
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
    earlier = stream.withColumn("w", F.window("timestamp", "1 minute"))
    assert compiled(earlier, ["w"], [F.sum("value")], "append").event_time_key is not None


def _total(column: str) -> Column:
    """A grouped aggregation in pandas; PySpark reads its return type with the session, so not when this module is imported."""

    @pandas_udf("double")  # type: ignore[call-overload, untyped-decorator]
    def total(values: pd.Series) -> float:
        return float(values.sum())

    made: Column = total(column)
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: (["i"], F.count_distinct("s")), r"count\(DISTINCT s\): DISTINCT"),
        (lambda: (["i"], F.sum_distinct("l")), r"sum\(DISTINCT l\): DISTINCT"),
        (
            lambda: (["i"], _total("x")),
            r"total\(x.*\) is not an aggregate that Spark runs on a stream",
        ),
        (
            lambda: ([F.expr("make_ym_interval(1, i)")], F.count("*")),
            r"groupBy .*: a key of type interval year to month",
        ),
    ],
)
def test_what_cannot_be_merged_is_refused_by_name(
    frame: DataFrame, made: Callable[[], tuple[list[Column | str], Column]], message: str
) -> None:
    """Nothing is approximated: the message names the expression and the alternative."""
    keys, aggregate = made()
    with pytest.raises(Unsupported, match=message):
        compiled(frame, keys, [aggregate])


@pytest.mark.parametrize(
    ("aggregate", "text"),
    [
        ("approx_count_distinct(s)", "approx_count_distinct(s)"),
        ("percentile(x, 0.25D)", "percentile(x, 0.25D, 1L)"),
        ("listagg(s, '-')", "listagg(s, '-')"),
        ("min(st)", "min(st)"),
        ("max_by(s, arr)", "max_by(s, arr)"),
        ("first(map(s, i))", "first(map(s, i))"),
        ("max(collate(s, 'UNICODE'))", "max(collate(s, UNICODE))"),
        ("median(x) FILTER (WHERE i > 1)", "percentile(x, 0.5D, 1L) FILTER (WHERE (i > 1))"),
    ],
)
def test_what_only_spark_can_merge_is_left_to_spark(frame: DataFrame, aggregate: str, text: str) -> None:
    """Its buffer is bytes, merged by Spark with the stored one, or kept in a list where a group is a session."""
    plan = compiled(frame, ["i"], [F.expr(aggregate)])
    assert [each.merge for each in plan.merges] == [Merge.REPLACE]
    assert plan.merged_type["p0"].dataType == BinaryType()
    assert list(plan.merged_by_spark) == ["p0"]
    assert plan.ordered
    assert f"replace: {text} as binary" in plan.description
    assert plan.description == compiled(frame, ["i"], [F.expr(aggregate)]).description


def test_what_a_watermark_needs(frame: DataFrame) -> None:
    """Append without an event-time key, or with two, is rejected."""
    count = [F.count("*")]
    for of, keys, message in (
        (marked(frame, "ts"), ["s"], "output mode append"),
        (frame, ["ts"], "output mode append"),
        (marked(frame, "ts"), ["ts", F.window("ts", "1 hour")], "several keys made of the event time"),
    ):
        with pytest.raises(Unsupported, match=message):
            compiled(of, keys, count, "append")  # type: ignore[arg-type]


def test_columns_of_one_name_are_told_apart(spark: SparkSession) -> None:
    """A column is known by its id: of two with the same name, each is the one that the program means."""
    left, right = spark.sql("SELECT 1 AS i, 'a' AS s"), spark.sql("SELECT 'b' AS s")
    both = left.crossJoin(right)
    made = Compiled(both, ["i"], [F.max(left["s"]), F.max(right["s"])])
    assert made.plan.final(made.partial(both)).collect() == [(1, "a", "b")]


def test_the_fingerprint_is_that_of_the_state(frame: DataFrame) -> None:
    """Names, order and final expressions may change; keys, buffers and their types must not, and the difference is named."""
    before = compiled(frame, ["s"], [F.sum("d").alias("a"), F.count("*")])
    same_state = compiled(frame, ["s"], [F.count("*").alias("n"), F.round(F.sum(frame["d"]), 1), F.avg("d")])
    assert before.fingerprint == same_state.fingerprint
    assert difference(before.description, same_state.description) is None
    for changed, gone, new in (
        (compiled(frame, ["s"], [F.sum("w"), F.count("*")]), "sum(d)", "sum(w)"),
        (compiled(frame, ["i"], [F.sum("d"), F.count("*")]), "key: s as string", "key: i as int"),
        (compiled(frame, ["s"], [F.count("*")]), "sum(d)", "nothing else"),
        (
            compiled(frame, ["s"], [F.expr("sum(d) FILTER (WHERE i > 0)"), F.count("*")]),
            "sum(d),",
            "sum(d) FILTER (WHERE (i > 0))",
        ),
    ):
        difference_text = difference(before.description, changed.description)
        assert difference_text is not None
        assert changed.fingerprint != before.fingerprint
        was, _, needs = difference_text.partition("but the program needs")
        assert gone in was
        assert new in needs


def test_what_travels_to_the_tasks_can_be_pickled(frame: DataFrame) -> None:
    """Schemas and merges are values; Columns stay on the driver."""
    plan = compiled(frame, tumbling(), simple())
    parts = (plan.key_schema, plan.buffer_schema, plan.merges)
    assert pickle.loads(pickle.dumps(parts)) == parts
    assert len(pickle.dumps(parts)) < 20_000
