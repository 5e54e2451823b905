"""Watermarks that wait for a silent stream, differ between streams, or come behind a stateful operator."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream
from conformance.programs.chains import EVENTS, SECOND

case = Kind("watermarks")

MAXIMUM = {"spark.sql.streaming.multipleWatermarkPolicy": "max"}
SPARSE = stream(
    "ts timestamp, k string, v long",
    [],
    [(1, "a", 1), (None, "b", 2)],
    [],
    [],
    [(40, "a", 3)],
    [],
    [(41, None, 4), (100, "z", 0)],
)
SLOW = stream(
    "at timestamp, j string, w long",
    [(5, "a", 10)],
    [],
    [(7, "a", 20), (8, None, 30)],
    [],
    [],
    [(90, "a", 40)],
    [(200, "z", 0)],
)


def _counts(events: DataFrame, delay: str = "10 seconds", length: str = "10 seconds") -> DataFrame:
    windowed = events.withWatermark("ts", delay).groupBy(F.window("ts", length), "k")
    return windowed.agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@case(SPARSE, source="EventTimeWatermarkSuite: a stream that begins without rows")
def begins_with_nothing(events: DataFrame) -> DataFrame:
    """The first step has no rows, and some rows have no event time."""
    return _counts(events)


@case(SPARSE, SLOW, source="EventTimeWatermarkSuite: multiple watermarks, one stream silent")
def silent_stream(events: DataFrame, slow: DataFrame) -> DataFrame:
    """The minimum of two watermarks is 0 until both streams have rows."""
    other = slow.selectExpr("at AS ts", "j AS k", "w AS v").withWatermark("ts", "1 second")
    both = events.withWatermark("ts", "20 seconds").union(other)
    return both.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("total"))


@case(SPARSE, SLOW, conf=MAXIMUM, source="EventTimeWatermarkSuite: max policy with different delays")
def silent_stream_maximum(events: DataFrame, slow: DataFrame) -> DataFrame:
    """The maximum of two watermarks drops rows of the slower stream."""
    other = slow.selectExpr("at AS ts", "j AS k", "w AS v").withWatermark("ts", "1 second")
    both = events.withWatermark("ts", "20 seconds").union(other)
    return both.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("total"))


@case(SPARSE, SLOW, conf=MAXIMUM, source="StreamingJoinSuite: max policy with an outer join")
def outer_join_maximum(events: DataFrame, slow: DataFrame) -> DataFrame:
    """An outer join by the faster watermark."""
    left, right = events.withWatermark("ts", "20 seconds"), slow.withWatermark("at", "1 second")
    return left.join(right, F.expr("k = j AND at BETWEEN ts AND ts + INTERVAL 10 SECONDS"), "full")


@case(SPARSE, SLOW, source="StreamingOuterJoinSuite: different delays")
def outer_join_of_different_delays(events: DataFrame, slow: DataFrame) -> DataFrame:
    """Rows without a match wait for the slower watermark."""
    left, right = events.withWatermark("ts", "30 seconds"), slow.withWatermark("at", "0 seconds")
    return left.join(right, F.expr("k = j AND at BETWEEN ts AND ts + INTERVAL 10 SECONDS"), "left")


@case(
    stream(
        "s string, v long", [("2024-03-01 00:00:01", 1)], [("2024-03-01 00:00:31", 2)], [("2024-03-01 00:00:02", 3)]
    ),
    fails=True,
    source="EventTimeWatermarkSuite: timestamp_ntz",
)
def time_without_zone(rows: DataFrame) -> DataFrame:
    """Spark has no watermarks on times without time zone."""
    local = rows.select(F.col("s").cast("timestamp_ntz").alias("ts"), "v").withWatermark("ts", "10 seconds")
    return local.groupBy(F.window("ts", "10 seconds")).agg(F.sum("v").alias("total"))


@case(EVENTS, fails=True, source="EventTimeWatermarkSuite: a watermark on a column of a nested struct")
def watermark_of_nested_column(events: DataFrame) -> DataFrame:
    """The event time goes through a struct and back; it cannot have a second watermark."""
    nested = events.withWatermark("ts", "5 seconds").select(F.struct("ts", "k").alias("s"), "v")
    flat = nested.select(F.col("s.ts").alias("ts"), F.col("s.k").alias("k"), "v").withWatermark("ts", "1 second")
    return flat.groupBy(F.window("ts", "10 seconds")).agg(F.sum("v").alias("total"))


@case(EVENTS, source="StreamingDeduplicationSuite: watermark behind deduplication")
def watermark_behind_dedup(events: DataFrame) -> DataFrame:
    """The first watermark is behind a deduplication."""
    once = events.dropDuplicates(["k", "v"]).withWatermark("ts", "5 seconds")
    return once.groupBy(F.window("ts", "10 seconds")).agg(F.sum("v").alias("total"))


@case(EVENTS, SECOND, source="StreamingInnerJoinSuite: watermark behind a join")
def watermark_behind_join(events: DataFrame, second: DataFrame) -> DataFrame:
    """The first watermark is behind a join."""
    pairs = events.join(second, F.expr("k = j")).withWatermark("ts", "5 seconds")
    return pairs.groupBy(F.window("ts", "10 seconds")).agg(F.sum("w").alias("total"))
