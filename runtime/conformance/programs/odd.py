"""Deliberately odd programs: graphs that use one stream several times, odd keys, values that overflow."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream
from conformance.programs.chains import EVENTS, SECOND

case = Kind("odd")

DECIMALS = stream(
    "k long, d decimal(38,0)",
    [(1, 10**37), (2, 5)],
    [(1, 9 * 10**37 - 1), (2, -5)],
    [(1, 8 * 10**37), (2, 1)],
    [(1, -(10**37)), (2, 2)],
)


def _counts(events: DataFrame, delay: str = "10 seconds", length: str = "10 seconds") -> DataFrame:
    windowed = events.withWatermark("ts", delay).groupBy(F.window("ts", length), "k")
    return windowed.agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@case(EVENTS, source="MultiStatefulOperatorsSuite: an aggregation united with its own stream")
def aggregate_and_rows(events: DataFrame) -> DataFrame:
    """Closed windows and the rows themselves in one stream."""
    marked = events.withWatermark("ts", "5 seconds")
    counted = marked.groupBy(F.window("ts", "10 seconds")).agg(F.sum("v").alias("v"))
    return counted.selectExpr("'all' AS k", "v").union(marked.select("k", "v"))


@case(EVENTS, SECOND, source="MultiStatefulOperatorsSuite: union of an aggregated and a plain stream")
def aggregate_and_other_rows(events: DataFrame, second: DataFrame) -> DataFrame:
    """The same with the rows of another stream, which has no watermark."""
    return _counts(events, "5 seconds").select("k", "total").union(second.select("j", "w"))


@case(EVENTS, source="MultiStatefulOperatorsSuite: self-join of an aggregation")
def aggregate_joined_with_itself(events: DataFrame) -> DataFrame:
    """The windows of one key with those of the others, by window."""
    counted = _counts(events, "5 seconds")
    other = counted.select(F.col("window").alias("w"), F.col("k").alias("j"), F.col("n").alias("m"))
    return counted.join(other, F.expr("window = w AND k < j")).select("window.start", "k", "j", "n", "m")


@case(EVENTS, source="MultiStatefulOperatorsSuite: outer self-join of an aggregation")
def aggregate_outer_joined_with_itself(events: DataFrame) -> DataFrame:
    """Windows that have no larger one."""
    counted = _counts(events, "5 seconds")
    other = counted.select(F.col("window").alias("w"), F.col("k").alias("j"), F.col("total").alias("larger"))
    joined = counted.join(other, F.expr("window = w AND total * 2 < larger + total"), "left")
    return joined.select("window.start", "k", "total", "larger")


@case(DECIMALS, mode="update", conf={"spark.sql.ansi.enabled": "false"}, source="DecimalAggregates: overflow")
def decimal_overflow(rows: DataFrame) -> DataFrame:
    """A sum of decimals that overflows is null, and stays so."""
    return rows.groupBy("k").agg(F.sum("d").alias("total"), F.max("d").alias("most"))


@case(DECIMALS, mode="update", fails=True, source="DecimalAggregates: overflow in ANSI mode")
def decimal_overflow_ansi(rows: DataFrame) -> DataFrame:
    """In ANSI mode it is an error."""
    return rows.groupBy("k").agg(F.sum("d").alias("total"))


@case(EVENTS, source="MultiStatefulOperatorsSuite: window over window_time")
def window_over_window_time(events: DataFrame) -> DataFrame:
    """Windows over the time of windows, with a sliding window between."""
    small = events.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "4 seconds", "2 seconds"), "k").count()
    timed = small.select(F.window_time("window").alias("t"), "k", "count")
    return timed.groupBy(F.window("t", "20 seconds")).agg(
        F.sum("count").alias("n"), F.count_if(F.col("count") > 1).alias("m")
    )


@case(EVENTS, source="MultiStatefulOperatorsSuite: window of a window column")
def window_of_window(events: DataFrame) -> DataFrame:
    """`window` takes a window column."""
    small = events.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "5 seconds"), "k").agg(F.sum("v").alias("v"))
    return small.groupBy(F.window("window", "15 seconds"), "k").agg(F.max("v").alias("most"))


@case(EVENTS, mode="update", fails=True, source="UnsupportedOperationsSuite: distinct aggregates")
def count_distinct(events: DataFrame) -> DataFrame:
    """Spark has no distinct aggregates on streams."""
    return events.groupBy("k").agg(F.count_distinct("v"))


@case(EVENTS, SECOND, source="StreamingJoinSuite: a limit behind a join")
def limit_behind_join(events: DataFrame, second: DataFrame) -> DataFrame:
    """The first rows of a join, of which all are equal."""
    return events.join(second, F.expr("k = j")).select(F.lit("match").alias("what")).limit(4)


@case(EVENTS, source="StreamingDeduplicationSuite: deduplication by a struct key, then a limit")
def dedup_by_struct_then_limit(events: DataFrame) -> DataFrame:
    """A struct as key, with a limit that is never reached."""
    return events.select(F.struct("k", F.expr("v % 2")).alias("key")).dropDuplicates().limit(100)


@case(EVENTS, mode="update", source="StreamingAggregationSuite: an aggregation without aggregates")
def only_keys(events: DataFrame) -> DataFrame:
    """Keys alone, twice the same one."""
    return events.groupBy("k", F.upper("k").alias("u"), "k").agg(F.lit(1).alias("one"))


@case(EVENTS, mode="complete", source="StreamingAggregationSuite: sort and limit of computed columns", ordered=True)
def sorted_by_hidden_column(events: DataFrame) -> DataFrame:
    """The sort column is not in the output."""
    counted = events.groupBy("k").agg(F.sum("v").alias("total"), F.min("ts").alias("first"))
    return counted.orderBy(F.desc("first"), "k").select("k", "total").limit(3)


@case(EVENTS, mode="update", repeats=True, source="StreamingAggregationSuite: a filter that is false for all rows")
def nothing_passes(events: DataFrame) -> DataFrame:
    """A global aggregate of a stream of which no row passes, next to constants."""
    return events.where("v < 0").agg(F.count("*").alias("n"), F.sum("v").alias("total"), F.lit("x").alias("x"))


@case(EVENTS, source="StreamingDeduplicationSuite: dropDuplicatesWithinWatermark behind a union of itself")
def dedup_of_union_with_itself(events: DataFrame) -> DataFrame:
    """Every row comes twice, by two branches."""
    marked = events.withWatermark("ts", "5 seconds")
    return marked.union(marked.where("v > 0")).dropDuplicatesWithinWatermark(["k", "v"]).select("k", "v")


@case(EVENTS, SECOND, source="StreamingJoinSuite: join keys of different types")
def keys_of_different_types(events: DataFrame, second: DataFrame) -> DataFrame:
    """A long and a decimal, a string and a number: Spark casts both sides."""
    right = second.select("j", (F.col("w") / 10).cast("decimal(20,2)").alias("d"), F.col("w").cast("string").alias("s"))
    return events.select("k", "v").join(right, F.expr("v = d AND v * 10 = s"))


@case(EVENTS, SECOND, source="StreamingLeftSemiJoinSuite: semi join, then an aggregation")
def semi_join_then_aggregate(events: DataFrame, second: DataFrame) -> DataFrame:
    """Matched rows counted by window."""
    left, right = events.withWatermark("ts", "5 seconds"), second.withWatermark("at", "5 seconds")
    matched = left.join(
        right, F.expr("k = j AND at BETWEEN ts - INTERVAL 9 SECONDS AND ts + INTERVAL 9 SECONDS"), "left_semi"
    )
    return matched.groupBy(F.window("ts", "10 seconds")).count()


@case(EVENTS, SECOND, source="StreamingSessionWindowSuite: sessions of joined streams")
def sessions_of_a_join(events: DataFrame, second: DataFrame) -> DataFrame:
    """Sessions behind a join with a range."""
    left, right = events.withWatermark("ts", "5 seconds"), second.withWatermark("at", "5 seconds")
    pairs = left.join(right, F.expr("k = j AND at BETWEEN ts AND ts + INTERVAL 10 SECONDS")).select("ts", "k", "w")
    return pairs.groupBy(F.session_window("ts", "6 seconds"), "k").agg(F.sum("w").alias("total"))


@case(EVENTS, SECOND, source="StreamingSessionWindowSuite: sessions of a union, joined by hand")
def sessions_of_union(events: DataFrame, second: DataFrame) -> DataFrame:
    """Sessions over two streams with different delays, counted by their length."""
    other = second.selectExpr("at AS ts", "j AS k", "w AS v").withWatermark("ts", "15 seconds")
    both = events.withWatermark("ts", "5 seconds").union(other)
    sessions = both.groupBy(F.session_window("ts", "4 seconds").alias("s"), "k").agg(F.collect_set("v").alias("vs"))
    return sessions.selectExpr("s.start", "s.end", "k", "size(vs) AS n")
