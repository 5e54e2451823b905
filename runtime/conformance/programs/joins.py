"""Inner stream-stream joins."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("inner joins")

LEFT = stream("k long, l string", [(1, "l1"), (2, "l2")], [], [(3, "l3"), (1, "l4")], [(5, "l5"), (None, "l6")])
RIGHT = stream("k long, r string", [(2, "r2"), (5, "r5")], [(1, "r1")], [(3, "r3")], [(None, "r6")])
ADS = stream(
    "at timestamp, ad long, cost long",
    [(0, 1, 10), (5, 2, 20)],
    [(20, 3, 30)],
    [(2, 4, 40), (31, 1, 50)],  # 2 is late once the watermark is 10
    [(80, 5, 60)],
    [],
    [(300, 9, 0)],
)
CLICKS = stream(
    "ts timestamp, id long",
    [(3, 1), (4, 7)],
    [(20, 2), (21, 3), (26, 2)],
    [(33, 1), (12, 2), (30, 3)],
    [],
    [(85, 5), (81, 5), (90, 5), (91, 5)],
    [(300, 9)],
)


@case(LEFT, RIGHT, source="StreamingInnerJoinSuite: stream stream inner join on non-time column")
def equal_keys(left: DataFrame, right: DataFrame) -> DataFrame:
    """Rows match in whichever batch they arrive; null matches nothing."""
    return left.join(right, "k")


@case(LEFT, RIGHT, mode="update", source="UnsupportedOperationsSuite: inner join in update mode")
def update_mode(left: DataFrame, right: DataFrame) -> DataFrame:
    """Update mode emits the same rows."""
    return left.join(right, "k").select("k", F.concat("l", "r").alias("both"))


@case(LEFT, RIGHT, source="StreamingInnerJoinSuite: null-safe equality and expressions as keys")
def null_safe_keys(left: DataFrame, right: DataFrame) -> DataFrame:
    """With null-safe equality, null matches null."""
    return left.alias("a").join(right.alias("b"), F.expr("a.k <=> b.k"))


@case(LEFT, RIGHT, source="StreamingInnerJoinSuite: conditions of one side and of both sides")
def further_conditions(left: DataFrame, right: DataFrame) -> DataFrame:
    """Conditions of the left side, of the right side, and of both."""
    condition = F.expr("a.k = b.k AND a.l != 'l1' AND b.r < 'r4' AND length(a.l) + length(b.r) > 3")
    return left.alias("a").join(right.alias("b"), condition)


@case(LEFT, RIGHT, source="StreamingInnerJoinSuite: keys that are expressions")
def computed_keys(left: DataFrame, right: DataFrame) -> DataFrame:
    """Keys are computed on each side."""
    return left.join(right, F.substring("l", 2, 9) == F.substring("r", 2, 9)).drop(right["k"])


@case(ADS, CLICKS, source="StreamingInnerJoinSuite: join on a range of times")
def time_range(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """A click belongs to an ad if it comes within ten seconds."""
    shown, clicked = ads.withWatermark("at", "10 seconds"), clicks.withWatermark("ts", "5 seconds")
    return shown.join(clicked, F.expr("ad = id AND ts >= at AND ts <= at + INTERVAL 10 SECONDS"))


@case(ADS, CLICKS, source="StreamingInnerJoinSuite: join on windows")
def window_keys(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """Windows as keys: rows leave the state with their window."""
    shown = ads.withWatermark("at", "10 seconds").select(F.window("at", "10 seconds"), "ad", "cost")
    clicked = clicks.withWatermark("ts", "10 seconds").select(F.window("ts", "10 seconds"), F.col("id").alias("click"))
    return shown.join(clicked, "window").select("window.end", "ad", "click")


@case(ADS, CLICKS, source="StreamingInnerJoinSuite: event times as keys")
def event_time_keys(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """The event times themselves are equal."""
    shown, clicked = ads.withWatermark("at", "10 seconds"), clicks.withWatermark("ts", "10 seconds")
    return shown.join(clicked, F.expr("at = ts"))


@case(ADS, CLICKS, source="StreamingInnerJoinSuite: one watermark only")
def watermark_of_one_side(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """Only the left side has a watermark; the right side is never late."""
    return ads.withWatermark("at", "10 seconds").join(clicks, F.expr("ad = id AND ts > at"))


@case(ADS, source="StreamingInnerJoinSuite: self-join, SPARK-26187")
def self_join(ads: DataFrame) -> DataFrame:
    """A stream joined with itself."""
    first = ads.select(F.col("at").alias("first"), "ad", F.col("cost").alias("a"))
    second = ads.select(F.col("at").alias("second"), F.col("ad").alias("other"), F.col("cost").alias("b"))
    return first.join(second, F.expr("ad = other AND first < second"))


@case(
    LEFT,
    RIGHT,
    stream("k long, x string", [], [(1, "x1"), (3, "x3")], [(2, "x2")], [(5, "x5"), (1, "x6")]),
    source="StreamingInnerJoinSuite: multiple joins",
)
def three_streams(left: DataFrame, right: DataFrame, third: DataFrame) -> DataFrame:
    """A join of a join."""
    return left.join(right, "k").join(third, "k")


@case(
    stream("d double, v long", [(0.0, 1), (float("nan"), 2)], [(-0.0, 3)]),
    stream("d double, w long", [(-0.0, 4)], [(float("nan"), 5), (1.0, 6)]),
    source="NormalizeFloatingPointNumbers: join keys",
)
def floating_point_keys(left: DataFrame, right: DataFrame) -> DataFrame:
    """NaN matches NaN, and -0.0 matches 0.0."""
    return left.join(right, "d")


@case(LEFT, RIGHT, fails=True, source="UnsupportedOperationsSuite: join without equal keys")
def no_equal_keys(left: DataFrame, right: DataFrame) -> DataFrame:
    """Streams need at least one equality to be joined."""
    return left.join(right, left["k"] < right["k"])
