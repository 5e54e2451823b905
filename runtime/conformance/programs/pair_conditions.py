"""Outer and semi joins with conditions on both sides that are no comparison of a column of one with a column of the other."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("conditions on pairs")

LEFT = stream(
    "ts timestamp, k long, x double, s string",
    [(1, 1, 1.0, "apple"), (2, 2, 2.0, "pear"), (3, 3, 3.0, None)],
    [(4, 1, 50.0, "apricot"), (13, 3, 31.0, "plum")],
    [(30, 6, 6.0, "quince"), (12, 1, None, "apple")],
    [(5, 1, 1.0, "late"), (31, 6, 60.0, "quince")],  # 5 is late
    [],
    [(31, None, 7.0, "none"), (32, 8, 8.0, "fig")],
    [(200, 9, 0.0, "end")],
)
RIGHT = stream(
    "at timestamp, j long, y double, t string",
    [(2, 1, 4.0, "app"), (3, 1, 99.0, "ap")],
    [(5, 3, 33.0, "pl"), (6, 2, 90.0, "pea"), (3, 2, 91.0, "x")],
    [(30, 7, 7.0, "q"), (13, 1, 1.5, None)],
    [(32, 6, 64.0, "qu"), (4, 1, 1.0, "late")],  # 4 is late
    [(33, 8, 100.0, "f"), (33, 8, 101.0, "fi")],
    [(34, None, 7.0, "none")],
    [(200, 10, 0.0, "end")],
)
NEAR_OR_LIKE = "abs(x - y) < 5 OR s LIKE concat(t, '%')"
RANGE = "k = j AND at >= ts - INTERVAL 5 SECONDS AND at <= ts + INTERVAL 5 SECONDS"


def _joined(left: DataFrame, right: DataFrame, condition: str, how: str) -> DataFrame:
    first, second = left.withWatermark("ts", "10 seconds"), right.withWatermark("at", "10 seconds")
    return first.join(second, F.expr(f"{RANGE} AND ({condition})"), how)


@case(LEFT, RIGHT, source="StreamingOuterJoinSuite: left outer join with a condition of both sides")
def left_near_or_like(left: DataFrame, right: DataFrame) -> DataFrame:
    """A left row whose candidates all fail the condition comes out when its time is over."""
    return _joined(left, right, NEAR_OR_LIKE, "left")


@case(LEFT, RIGHT, source="StreamingOuterJoinSuite: right outer join with a condition of both sides")
def right_near_or_like(left: DataFrame, right: DataFrame) -> DataFrame:
    """The same for right rows."""
    return _joined(left, right, NEAR_OR_LIKE, "right")


@case(LEFT, RIGHT, source="StreamingFullOuterJoinSuite: full outer join with a condition of both sides")
def full_near_or_like(left: DataFrame, right: DataFrame) -> DataFrame:
    """The same for both; keys that are null match each other in a full outer join of streams."""
    return _joined(left, right, NEAR_OR_LIKE, "full")


@case(LEFT, RIGHT, source="StreamingLeftSemiJoinSuite: left semi join with a condition of both sides")
def semi_near_or_like(left: DataFrame, right: DataFrame) -> DataFrame:
    """A left row comes out at its first candidate for which the condition holds."""
    return _joined(left, right, NEAR_OR_LIKE, "left_semi")


@case(LEFT, RIGHT, source="StreamingInnerJoinSuite: inner join with a condition of both sides")
def inner_near_or_like(left: DataFrame, right: DataFrame) -> DataFrame:
    """The pairs for which it holds."""
    return _joined(left, right, NEAR_OR_LIKE, "inner")


@case(LEFT, RIGHT, source="StreamingOuterJoinSuite: conditions of one side, comparisons and others together")
def left_with_everything(left: DataFrame, right: DataFrame) -> DataFrame:
    """A condition of each side, a comparison, and one that is none of both."""
    return _joined(left, right, "x < 40 AND y < 95 AND s > t AND length(s) + length(t) > 6", "left")


@case(LEFT, RIGHT, source="StreamingFullOuterJoinSuite: a condition that is null")
def full_never(left: DataFrame, right: DataFrame) -> DataFrame:
    """A condition that is null or false for all pairs: no row has a match."""
    return _joined(left, right, "concat(s, t) = 'nothing' OR x + y IS NULL AND s || t < 'a'", "full")


@case(LEFT, RIGHT, source="StreamingOuterJoinSuite: join on windows with a condition of both sides")
def left_window_and_condition(left: DataFrame, right: DataFrame) -> DataFrame:
    """Windows as keys, and an arithmetic condition."""
    first = left.withWatermark("ts", "10 seconds").select(F.window("ts", "10 seconds").alias("w"), "k", "x", "s")
    second = right.withWatermark("at", "10 seconds").select(F.window("at", "10 seconds").alias("v"), "j", "y", "t")
    return first.join(second, F.expr("w = v AND k = j AND (x * y) % 2 = 0"), "left")


@case(LEFT, RIGHT, source="MultiStatefulOperatorsSuite: an outer join, then an aggregation")
def outer_then_count(left: DataFrame, right: DataFrame) -> DataFrame:
    """An aggregation behind such a join waits as long as its rows can be late."""
    joined = _joined(left, right, NEAR_OR_LIKE, "left")
    return joined.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"), F.count("y").alias("matched"))


@case(LEFT, RIGHT, source="MultiStatefulOperatorsSuite: an inner join on ranges, then an outer join with a condition")
def outer_behind_range_join(left: DataFrame, right: DataFrame) -> DataFrame:
    """A second join, whose watermark is behind the first one's range."""
    first = _joined(left, right, "x < 1000", "inner").select("ts", "k", "x", "y")
    again = right.withWatermark("at", "10 seconds").selectExpr("at AS at2", "j AS j2", "y AS y2")
    condition = "k = j2 AND at2 >= ts AND at2 <= ts + INTERVAL 5 SECONDS AND abs(y - y2) + x < 60"
    return first.join(again, F.expr(condition), "left")


@case(LEFT, RIGHT, fails=True, source="ExtractPythonUDFFromJoinConditionSuite: outer join")
def outer_python_condition(left: DataFrame, right: DataFrame) -> DataFrame:
    """Spark has no Python functions of both sides in the condition of an outer join."""
    near = F.udf(lambda x, y: x is not None and y is not None and abs(x - y) < 5, "boolean")
    first, second = left.withWatermark("ts", "10 seconds"), right.withWatermark("at", "10 seconds")
    return first.join(second, F.expr(RANGE) & near("x", "y"), "left")


@case(LEFT, RIGHT, source="ExtractPythonUDFFromJoinConditionSuite: inner join")
def inner_python_condition(left: DataFrame, right: DataFrame) -> DataFrame:
    """In an inner join it is a filter behind the join."""
    near = F.udf(lambda x, y: x is not None and y is not None and abs(x - y) < 5, "boolean")
    first, second = left.withWatermark("ts", "10 seconds"), right.withWatermark("at", "10 seconds")
    return first.join(second, F.expr(RANGE) & near("x", "y"))


@case(LEFT, RIGHT, source="ExtractPythonUDFFromJoinConditionSuite: functions of one side")
def left_python_condition_of_one_side(left: DataFrame, right: DataFrame) -> DataFrame:
    """A Python function of one side is evaluated on that side."""
    small = F.udf(lambda y: y < 50, "boolean")
    first, second = left.withWatermark("ts", "10 seconds"), right.withWatermark("at", "10 seconds")
    return first.join(second, F.expr(RANGE) & small("y"), "left")
