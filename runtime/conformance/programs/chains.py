"""Several stateful operators in one query, each with its own watermark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream
from conformance.programs.joins import ADS, CLICKS

case = Kind("chains")

EVENTS = stream(
    "ts timestamp, k string, v long",
    [(1, "a", 1), (2, "b", 2), (7, "a", 3), (12, "c", 4)],
    [(17, "a", 5), (3, "b", 6), (18, "a", 5)],
    [(2, "late", 7), (31, "b", 8), (18, "a", 5)],
    [],
    [(45, "c", 9), (33, "b", 1), (24, "a", 1)],
    [(46, "a", 1)],
    [(300, "z", 0)],
)
SECOND = stream(
    "at timestamp, j string, w long",
    [(2, "a", 10), (3, "x", 20)],
    [(16, "a", 30)],
    [(30, "b", 40), (33, "b", 50)],
    [(34, "c", 60)],
    [],
    [(47, "a", 70)],
    [(300, "y", 0)],
)


def _windows(events: DataFrame, length: str = "5 seconds", *keys: str) -> DataFrame:
    grouped = events.withWatermark("ts", "5 seconds").groupBy(F.window("ts", length), *keys)
    return grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@case(EVENTS, source="MultiStatefulOperatorsSuite: window agg -> window agg, append mode")
def aggregate_on_aggregate(events: DataFrame) -> DataFrame:
    """Counts of five seconds become counts of ten."""
    again = _windows(events).groupBy(F.window("window", "10 seconds"))
    return again.agg(F.count("*").alias("windows"), F.sum("n").alias("n"), F.max("total").alias("most"))


@case(EVENTS, source="MultiStatefulOperatorsSuite: agg -> agg -> agg, with window_time")
def three_aggregates(events: DataFrame) -> DataFrame:
    """Windows of windows of windows."""
    at = F.window_time("window")
    second = _windows(events, "5 seconds", "k").groupBy(F.window(at, "10 seconds"), "k").agg(F.sum("n").alias("n"))
    third = second.groupBy(F.window(F.window_time("window"), "20 seconds"))
    return third.agg(F.count("*").alias("keys"), F.sum("n").alias("n"))


@case(EVENTS, mode="update", fails=True, source="UnsupportedOperationsSuite: chained aggregates in update mode")
def aggregate_on_aggregate_update(events: DataFrame) -> DataFrame:
    """A chain of aggregates needs append mode."""
    return _windows(events).groupBy(F.window("window", "10 seconds")).count()


@case(EVENTS, source="MultiStatefulOperatorsSuite: dedup -> window agg, append mode")
def dedup_then_aggregate(events: DataFrame) -> DataFrame:
    """Repeated rows count once."""
    unique = events.withWatermark("ts", "5 seconds").dropDuplicates(["k", "ts"])
    return unique.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@case(EVENTS, mode="update", source="MultiStatefulOperatorsSuite: dedup -> agg, update mode")
def dedup_then_aggregate_update(events: DataFrame) -> DataFrame:
    """Groups are emitted as they change."""
    unique = events.withWatermark("ts", "5 seconds").dropDuplicatesWithinWatermark(["k", "v"])
    return unique.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("total"))


@case(EVENTS, mode="complete", source="MultiStatefulOperatorsSuite: dedup -> agg, complete mode")
def dedup_then_aggregate_complete(events: DataFrame) -> DataFrame:
    """All groups of rows that passed."""
    return events.dropDuplicates(["k", "v"]).groupBy("k").agg(F.count("*").alias("n"))


@case(EVENTS, source="MultiStatefulOperatorsSuite: agg -> dedup")
def aggregate_then_dedup(events: DataFrame) -> DataFrame:
    """One row per total among the closed windows."""
    return _windows(events, "5 seconds", "k").select("window", "n").dropDuplicates(["window", "n"])


@case(ADS, CLICKS, source="MultiStatefulOperatorsSuite: stream-stream time interval join -> window agg")
def join_then_aggregate(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """Matches per window of the ad's time."""
    shown, clicked = ads.withWatermark("at", "10 seconds"), clicks.withWatermark("ts", "10 seconds")
    joined = shown.join(clicked, F.expr("ad = id AND ts >= at AND ts <= at + INTERVAL 10 SECONDS"))
    return (
        joined.drop("ts")
        .groupBy(F.window("at", "10 seconds"))
        .agg(F.count("*").alias("n"), F.sum("cost").alias("cost"))
    )


@case(ADS, CLICKS, source="MultiStatefulOperatorsSuite: left outer join on windows -> window agg")
def outer_join_then_aggregate(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """Ads with and without clicks per window; rows without a match come with the watermark."""
    shown = ads.withWatermark("at", "10 seconds").select(F.window("at", "10 seconds"), "ad")
    clicked = clicks.withWatermark("ts", "10 seconds").select(F.window("ts", "10 seconds").alias("w"), "id")
    joined = shown.join(clicked, F.expr("window = w AND ad = id"), "left")
    return joined.groupBy("window").agg(F.count("*").alias("ads"), F.count("id").alias("clicked"))


@case(EVENTS, SECOND, source="MultiStatefulOperatorsSuite: window agg joined with a stream on windows")
def aggregate_joined_with_stream(events: DataFrame, second: DataFrame) -> DataFrame:
    """The windows of one branch, matched with the rows of another."""
    other = second.withWatermark("at", "5 seconds").select(F.window("at", "5 seconds"), "j", "w")
    return _windows(events, "5 seconds", "k").join(other, "window")


@case(EVENTS, SECOND, source="MultiStatefulOperatorsSuite: two aggregates joined on their windows")
def two_aggregates_joined(events: DataFrame, second: DataFrame) -> DataFrame:
    """Counts of two streams per window, also where only one has rows."""
    left = _windows(events, "10 seconds")
    right = _windows(second.withColumnsRenamed({"at": "ts", "w": "v"}), "10 seconds")
    both = left.join(right.withColumnsRenamed({"n": "m", "total": "sum"}), "window", "left")
    return both.select("window.start", "n", "total", "m", "sum")


@case(EVENTS, source="MultiStatefulOperatorsSuite: one stream, aggregated and joined with its own maximum (NEXMark Q7)")
def joined_with_own_maximum(events: DataFrame) -> DataFrame:
    """The keys with the largest total in each window."""
    totals = _windows(events, "10 seconds", "k")
    most = totals.groupBy(F.window("window", "10 seconds").alias("w")).agg(F.max("total").alias("most"))
    return totals.join(most, F.expr("window = w AND total = most")).select("window.end", "k", "total")


@case(EVENTS, source="MultiStatefulOperatorsSuite: session_window -> window agg")
def sessions_then_windows(events: DataFrame) -> DataFrame:
    """Sessions counted per window of their end."""
    session = F.session_window("ts", "6 seconds")
    closed = events.withWatermark("ts", "5 seconds").groupBy(session, "k").agg(F.sum("v").alias("total"))
    ends = closed.groupBy(F.window("session_window", "20 seconds"))
    return ends.agg(F.count("*").alias("sessions"), F.sum("total").alias("total"))


@case(EVENTS, SECOND, source="MultiStatefulOperatorsSuite: join -> join, then deduplication")
def join_then_dedup(events: DataFrame, second: DataFrame) -> DataFrame:
    """Each key that has matched, once."""
    return events.join(second, F.expr("k = j AND v < w")).select("k").dropDuplicates()


@case(EVENTS, source="MultiStatefulOperatorsSuite: agg -> limit")
def aggregate_then_limit(events: DataFrame) -> DataFrame:
    """The first two closed windows in all; each batch closes at most one before the limit is reached."""
    return _windows(events).select("window.start", "n").limit(2)
