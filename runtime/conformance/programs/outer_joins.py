"""Outer and semi stream-stream joins: rows without a match are emitted when the watermark proves that none can come."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream
from conformance.programs.joins import ADS, CLICKS, LEFT, RIGHT

case = Kind("outer joins")

VALUES = stream(
    "ts timestamp, k long, v long",
    [(1, 1, 10), (2, 2, 20), (3, 3, 30)],
    [(4, 4, 40), (13, 3, 31)],
    [(30, 6, 60), (12, 1, 11)],
    [(5, 1, 12), (31, 6, 61)],  # 5 is late
    [],
    [(31, None, 70), (32, 8, 80)],
    [(200, 9, 0)],
)
OTHERS = stream(
    "at timestamp, j long, w long",
    [(2, 1, 100), (3, 1, 101)],
    [(5, 3, 300), (6, 5, 500)],
    [(30, 7, 700)],
    [(32, 6, 600), (4, 4, 400)],  # 4 is late
    [(33, 8, 801)],
    [(34, None, 1)],
    [(200, 10, 0)],
)
IN_WINDOW = "k = j AND w1 = w2"
IN_RANGE = "k = j AND at >= ts - INTERVAL 5 SECONDS AND at <= ts + INTERVAL 5 SECONDS"


def _joined(values: DataFrame, others: DataFrame, condition: str, how: str) -> DataFrame:
    left = values.withWatermark("ts", "10 seconds").withColumn("w1", F.window("ts", "10 seconds"))
    right = others.withWatermark("at", "10 seconds").withColumn("w2", F.window("at", "10 seconds"))
    if condition == IN_RANGE:
        left, right = left.drop("w1"), right.drop("w2")
    else:
        left, right = left.drop("ts"), right.drop("at")
    return left.join(right, F.expr(condition), how)


@case(VALUES, OTHERS, source="StreamingOuterJoinSuite: left outer join on windows")
def left_window(values: DataFrame, others: DataFrame) -> DataFrame:
    """Left rows without a match appear when their window ends."""
    return _joined(values, others, IN_WINDOW, "left")


@case(VALUES, OTHERS, source="StreamingOuterJoinSuite: right outer join on windows")
def right_window(values: DataFrame, others: DataFrame) -> DataFrame:
    """Right rows without a match appear when their window ends."""
    return _joined(values, others, IN_WINDOW, "right")


@case(VALUES, OTHERS, source="StreamingFullOuterJoinSuite: windowed full outer join")
def full_window(values: DataFrame, others: DataFrame) -> DataFrame:
    """Rows of both sides without a match."""
    return _joined(values, others, IN_WINDOW, "full")


@case(VALUES, OTHERS, source="StreamingLeftSemiJoinSuite: windowed left semi join")
def semi_window(values: DataFrame, others: DataFrame) -> DataFrame:
    """A left row appears once, at its first match."""
    return _joined(values, others, IN_WINDOW, "left_semi")


@case(VALUES, OTHERS, source="StreamingOuterJoinSuite: left outer join with a watermark range condition")
def left_range(values: DataFrame, others: DataFrame) -> DataFrame:
    """The range of times decides when no match can come."""
    return _joined(values, others, IN_RANGE, "left")


@case(VALUES, OTHERS, source="StreamingOuterJoinSuite: right outer join with a watermark range condition")
def right_range(values: DataFrame, others: DataFrame) -> DataFrame:
    """The same from the right side."""
    return _joined(values, others, IN_RANGE, "right")


@case(VALUES, OTHERS, source="StreamingFullOuterJoinSuite: full outer join with a watermark range condition")
def full_range(values: DataFrame, others: DataFrame) -> DataFrame:
    """The same for both sides."""
    return _joined(values, others, IN_RANGE, "full")


@case(VALUES, OTHERS, source="StreamingLeftSemiJoinSuite: left semi join with a watermark range condition")
def semi_range(values: DataFrame, others: DataFrame) -> DataFrame:
    """A left row appears once, even if several right rows match."""
    return _joined(values, others, IN_RANGE, "left_semi")


@case(LEFT, RIGHT, fails=True, source="UnsupportedOperationsSuite: left semi join without watermark")
def semi_without_watermark(left: DataFrame, right: DataFrame) -> DataFrame:
    """A semi join needs a watermark, as its left rows would stay forever."""
    return left.join(right, "k", "left_semi")


@case(ADS, CLICKS, source="StreamingOuterJoinSuite: SPARK-26187, join condition on one side of a left outer join")
def left_with_condition_of_one_side(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """A left row that fails a condition of its own side has no match, which is known at once."""
    condition = F.expr("ad = id AND cost > 15 AND ts >= at AND ts <= at + INTERVAL 10 SECONDS")
    return ads.withWatermark("at", "10 seconds").join(clicks.withWatermark("ts", "5 seconds"), condition, "left")


@case(ADS, CLICKS, source="StreamingOuterJoinSuite: condition of both sides besides the range")
def left_with_condition_of_both_sides(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """A condition of both sides decides whether a candidate is a match."""
    condition = F.expr("ad = id AND (second(ts) + cost) % 2 = 0 AND ts >= at AND ts <= at + INTERVAL 10 SECONDS")
    return ads.withWatermark("at", "10 seconds").join(clicks.withWatermark("ts", "5 seconds"), condition, "left")


@case(
    VALUES,
    OTHERS,
    conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    source="StreamingOuterJoinSuite: eviction without batches without data",
)
def left_without_empty_batches(values: DataFrame, others: DataFrame) -> DataFrame:
    """Rows without a match wait for the next batch that has data."""
    return _joined(values, others, IN_WINDOW, "left")


@case(LEFT, RIGHT, fails=True, source="UnsupportedOperationsSuite: left outer join without watermark")
def left_without_watermark(left: DataFrame, right: DataFrame) -> DataFrame:
    """An outer join needs a watermark."""
    return left.join(right, "k", "left")


@case(VALUES, OTHERS, mode="update", fails=True, source="UnsupportedOperationsSuite: outer join in update mode")
def left_update(values: DataFrame, others: DataFrame) -> DataFrame:
    """An outer join needs append mode."""
    return _joined(values, others, IN_WINDOW, "left")
