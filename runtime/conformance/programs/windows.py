"""Event-time windows and watermarks: late rows, rows exactly at the watermark, and several watermarks."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("windows")

EVENTS = stream(
    "ts timestamp, k string, v long",
    [(1, "a", 1), (2, "b", 2), (12, "a", 3)],
    [(25, "a", 4), (11, "b", 5)],  # the watermark becomes 15: the window that ends at 10 is closed
    [(9, "a", 6), (10, "b", 7), (14, "a", 8)],  # 9 is late, 10 and 14 are not
    [],
    [(30, "c", 9), (20, "c", 1)],  # the watermark becomes 20, exactly the end of a window
    [(19, "a", 2), (20, "a", 2)],  # 19 is late, 20 is not
    [(200, "z", 0)],
)
SECOND = stream(
    "ts timestamp, k string, v long",
    [(1, "a", 10)],
    [],
    [(40, "b", 20), (12, "a", 30)],
    [(41, "c", 40)],
    [],
    [(70, "c", 50)],
    [(190, "z", 0)],
)


def _counted(events: DataFrame, *keys: str) -> DataFrame:
    grouped = events.groupBy(F.window("ts", "10 seconds"), *keys)
    return grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@case(EVENTS, source="EventTimeWatermarkSuite: append mode")
def tumbling_append(events: DataFrame) -> DataFrame:
    """A window is emitted once, when the watermark reaches its end."""
    return _counted(events.withWatermark("ts", "10 seconds"), "k")


@case(EVENTS, mode="update", source="EventTimeWatermarkSuite: update mode")
def tumbling_update(events: DataFrame) -> DataFrame:
    """A window is emitted in each batch that changes it; late rows are dropped."""
    return _counted(events.withWatermark("ts", "10 seconds"), "k")


@case(EVENTS, mode="complete", source="EventTimeWatermarkSuite: complete mode")
def tumbling_complete(events: DataFrame) -> DataFrame:
    """Complete mode drops no row and no group."""
    return _counted(events.withWatermark("ts", "10 seconds"))


@case(EVENTS, mode="update", source="StreamingAggregationSuite: windows without watermark")
def without_watermark(events: DataFrame) -> DataFrame:
    """Nothing is late without a watermark."""
    return _counted(events)


@case(EVENTS, source="DataFrameTimeWindowingSuite: sliding windows")
def sliding_append(events: DataFrame) -> DataFrame:
    """A row is in several windows, of which only some are closed."""
    window = F.window("ts", "20 seconds", "10 seconds")
    counted = events.withWatermark("ts", "10 seconds").groupBy(window, "k").agg(F.sum("v").alias("total"))
    return counted.select("window.start", "window.end", "k", "total")


@case(EVENTS, mode="update", source="DataFrameTimeWindowingSuite: start time and slides that leave gaps")
def sliding_with_offset(events: DataFrame) -> DataFrame:
    """Windows that do not begin at whole multiples of the slide."""
    window = F.window("ts", "15 seconds", "7 seconds", "3 seconds")
    return events.withWatermark("ts", "5 seconds").groupBy(window).agg(F.collect_list("v").alias("values"))


@case(EVENTS, source="MultiStatefulOperatorsSuite: window_time")
def window_time(events: DataFrame) -> DataFrame:
    """The time of a window is its end, less a microsecond."""
    counted = _counted(events.withWatermark("ts", "10 seconds"), "k")
    return counted.select(F.window_time("window").alias("at"), "k", "n").where("n < 3")


@case(EVENTS, source="EventTimeWatermarkSuite: event time as key")
def event_time_as_key(events: DataFrame) -> DataFrame:
    """The event time itself is the key."""
    return events.withWatermark("ts", "10 seconds").groupBy("ts").agg(F.max("k").alias("k"), F.count("*").alias("n"))


@case(EVENTS, source="EventTimeWatermarkSuite: SPARK-24156, batches without data")
def zero_delay(events: DataFrame) -> DataFrame:
    """Without delay, the largest event time is the watermark."""
    return _counted(events.withWatermark("ts", "0 seconds"))


@case(
    EVENTS,
    conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    source="EventTimeWatermarkSuite: no batches without data",
)
def no_batches_without_data(events: DataFrame) -> DataFrame:
    """Windows are closed in the next batch that has data."""
    return _counted(events.withWatermark("ts", "10 seconds"), "k")


@case(EVENTS, source="EventTimeWatermarkSuite: filter behind the watermark")
def filter_on_event_time(events: DataFrame) -> DataFrame:
    """Rows that a filter drops still move the watermark."""
    return _counted(events.withWatermark("ts", "10 seconds").where(F.second("ts") % 5 != 0), "k")


@case(EVENTS, source="EventTimeWatermarkSuite: watermark on an expression; delay in months")
def watermark_of_expression(events: DataFrame) -> DataFrame:
    """The event time is computed, and rows are filtered by another column."""
    shifted = events.withColumn("at", F.col("ts") - F.expr("INTERVAL 1 HOUR")).where("k != 'c'")
    return shifted.withWatermark("at", "10 seconds").groupBy(F.window("at", "10 seconds"), "k").count()


@case(
    stream(
        "ts timestamp, v long",
        [(datetime(1969, 12, 31, 23, 0, tzinfo=UTC), 1), (datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC), 2)],
        [(datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), 3), (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), 4)],
        [(datetime(1970, 1, 1, 0, 1, tzinfo=UTC), 5)],
    ),
    source="EventTimeWatermarkSuite: event times around 1970",
)
def before_1970(events: DataFrame) -> DataFrame:
    """The watermark begins at 0, so earlier windows are late from the first batch on."""
    return events.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "10 seconds")).agg(F.sum("v").alias("total"))


@case(
    stream("ts timestamp, v long", [(1, 1), (None, 2)], [(25, 3), (None, 4)], [(90, 5)]),
    source="EventTimeWatermarkSuite: null event times",
)
def null_event_time(events: DataFrame) -> DataFrame:
    """Rows without a time are in no window and leave the watermark alone."""
    return events.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds")).agg(F.sum("v").alias("total"))


@case(EVENTS, SECOND, source="EventTimeWatermarkSuite: two watermarks, policy min")
def two_watermarks_min(events: DataFrame, second: DataFrame) -> DataFrame:
    """The slower stream holds the watermark back."""
    return _counted(events.withWatermark("ts", "10 seconds").union(second.withWatermark("ts", "20 seconds")), "k")


@case(
    EVENTS,
    SECOND,
    conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"},
    source="EventTimeWatermarkSuite: two watermarks, policy max",
)
def two_watermarks_max(events: DataFrame, second: DataFrame) -> DataFrame:
    """The faster stream moves the watermark."""
    return _counted(events.withWatermark("ts", "10 seconds").union(second.withWatermark("ts", "20 seconds")), "k")


@case(EVENTS, mode="update", source="EventTimeWatermarkSuite: keys without window below a watermark")
def watermark_without_window(events: DataFrame) -> DataFrame:
    """If no key has the event time, update mode keeps all groups and drops no row."""
    return events.withWatermark("ts", "10 seconds").groupBy("k").agg(F.sum("v").alias("total"))


@case(EVENTS, fails=True, source="UnsupportedOperationsSuite: append without event time among the keys")
def append_without_window(events: DataFrame) -> DataFrame:
    """Append mode needs the event time among the keys."""
    return events.withWatermark("ts", "10 seconds").groupBy("k").count()
