"""Deduplication: with and without an event time among the keys, and within the watermark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("dedup")

NAN = float("nan")
PAIRS = stream(
    "k string, v long",
    [("a", 1), ("a", 1), ("b", 1)],
    [("a", 1), ("b", 2), ("c", 1)],
    [],
    [("a", 2), ("b", 2), (None, 1), (None, 1)],
)
EVENTS = stream(
    "ts timestamp, k string, v long",
    [(10, "a", 1), (10, "a", 1), (11, "b", 2), (15, "c", 3)],
    [(10, "a", 1), (25, "a", 1), (12, "b", 5)],  # the watermark becomes 15
    [(10, "d", 9), (15, "e", 9), (16, "e", 9), (25, "a", 1)],  # at or before the watermark is late
    [],
    [(45, "f", 0), (25, "a", 1)],
    [(25, "a", 1), (36, "a", 1), (45, "f", 0)],
    [(100, "z", 0)],
)


@case(PAIRS, source="StreamingDeduplicationSuite: deduplicate with all columns")
def all_columns(pairs: DataFrame) -> DataFrame:
    """A row passes once; nulls are equal."""
    return pairs.dropDuplicates()


@case(PAIRS, source="StreamingDeduplicationSuite: deduplicate with some columns")
def subset(pairs: DataFrame) -> DataFrame:
    """The first row of a key passes, with its other columns."""
    return pairs.dropDuplicates(["k"])


@case(PAIRS, mode="update", source="StreamingDeduplicationSuite: multiple deduplicates")
def twice(pairs: DataFrame) -> DataFrame:
    """One deduplication behind another; of the second only the keys are emitted, as no order between the two is promised."""
    return pairs.dropDuplicates().dropDuplicates(["v"]).select("v")


@case(EVENTS, source="StreamingDeduplicationSuite: deduplicate with watermark")
def event_time_among_keys(events: DataFrame) -> DataFrame:
    """Keys leave the state with the watermark; late rows are dropped."""
    return events.withWatermark("ts", "10 seconds").dropDuplicates(["k", "ts"])


@case(EVENTS, source="StreamingDeduplicationSuite: watermark, but no event time among the keys")
def event_time_not_among_keys(events: DataFrame) -> DataFrame:
    """Late rows are dropped, and no key is ever forgotten."""
    return events.withWatermark("ts", "10 seconds").dropDuplicates(["k"])


@case(EVENTS, source="StreamingDeduplicationSuite: all columns with a watermark")
def all_columns_with_watermark(events: DataFrame) -> DataFrame:
    """All columns are keys, so the event time is."""
    return events.withWatermark("ts", "10 seconds").dropDuplicates()


@case(EVENTS, source="StreamingDeduplicationSuite: window among the keys")
def window_among_keys(events: DataFrame) -> DataFrame:
    """Once per window and key; a key leaves with the end of its window."""
    windowed = events.withWatermark("ts", "10 seconds").select(F.window("ts", "10 seconds"), "k", "v")
    return windowed.dropDuplicates(["window", "k"])


@case(EVENTS, source="StreamingDeduplicationWithinWatermarkSuite: deduplicate with all columns")
def within_watermark_all_columns(events: DataFrame) -> DataFrame:
    """A row passes again when its first one has left the state."""
    return events.withWatermark("ts", "10 seconds").dropDuplicatesWithinWatermark()


@case(EVENTS, source="StreamingDeduplicationWithinWatermarkSuite: deduplicate with some columns")
def within_watermark_subset(events: DataFrame) -> DataFrame:
    """The time of the first row decides, not that of its duplicates."""
    return events.withWatermark("ts", "10 seconds").dropDuplicatesWithinWatermark(["k"])


@case(
    stream(
        "ts timestamp, k string",
        [(17, "a")],
        [(22, "a"), (23, "b")],  # a duplicate does not extend the time
        [(21, "a"), (37, "c")],  # the watermark becomes 27 = 17 + 10
        [(28, "a"), (32, "b")],
        [(43, "d")],  # 33 = 23 + 10
        [(34, "b"), (38, "a")],
        [(100, "z")],
    ),
    source="StreamingDeduplicationWithinWatermarkSuite: some columns, expiry exactly at the watermark",
)
def within_watermark_boundary(events: DataFrame) -> DataFrame:
    """A key leaves in the batch whose watermark equals its time plus the delay."""
    return events.withWatermark("ts", "10 seconds").dropDuplicatesWithinWatermark(["k"])


@case(EVENTS, fails=True, source="StreamingDeduplicationWithinWatermarkSuite: no watermark")
def within_watermark_without_watermark(events: DataFrame) -> DataFrame:
    """The operator needs a watermark."""
    return events.dropDuplicatesWithinWatermark(["k"])


@case(
    stream("d double, s struct<x:int>", [(NAN, (1,)), (0.0, None)], [(-0.0, None), (NAN, (1,))], [(NAN, (2,))]),
    source="StreamingDeduplicationSuite: SPARK-27351, floating-point and nested keys",
)
def special_keys(rows: DataFrame) -> DataFrame:
    """NaN equals NaN, -0.0 equals 0.0; structs are compared by value."""
    return rows.dropDuplicates()


@case(EVENTS, source="StreamingDeduplicationSuite: with a projection before and behind")
def between_projections(events: DataFrame) -> DataFrame:
    """Computed keys, and a filter behind."""
    upper = events.withWatermark("ts", "10 seconds").withColumn("key", F.upper("k")).dropDuplicates(["key", "ts"])
    return upper.where("v > 0").select("key", F.date_format("ts", "mm:ss").alias("at"))
