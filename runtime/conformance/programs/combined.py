"""Static frames and unions, before and behind a stateful operator."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind
from conformance.programs.aggregation import WORDS
from conformance.programs.windows import EVENTS, SECOND

case = Kind("static frames and unions")


def _names(near: DataFrame) -> DataFrame:
    rows = "('a', 'Anna'), ('b', 'Bert'), ('b', 'Bea'), ('x', 'Xaver')"
    return near.sparkSession.sql(f"SELECT * FROM VALUES {rows} AS names(k, name)")


@case(WORDS, mode="update", source="StreamingJoinSuite: stream-static inner join before an aggregate")
def inner_join_before(words: DataFrame) -> DataFrame:
    """A static match multiplies or drops rows before the aggregate."""
    return words.join(_names(words), "k").groupBy("name").agg(F.sum("v").alias("total"))


@case(WORDS, mode="update", source="StreamingJoinSuite: stream-static left outer join before an aggregate")
def left_join_before(words: DataFrame) -> DataFrame:
    """Rows without a static match remain."""
    return words.join(_names(words), "k", "left").groupBy("k", "name").count()


@case(WORDS, mode="update", source="UnsupportedOperationsSuite: semi and anti joins with a static side")
def semi_and_anti_join_before(words: DataFrame) -> DataFrame:
    """A static frame as a filter, and as its opposite."""
    known = words.join(_names(words), "k", "left_semi").withColumn("known", F.lit(True))
    unknown = words.join(_names(words), "k", "left_anti").withColumn("known", F.lit(False))
    return known.union(unknown).groupBy("known").agg(F.count("*").alias("n"), F.max("v").alias("most"))


@case(WORDS, mode="update", source="StreamingJoinSuite: stream-static join behind an aggregate")
def join_behind(words: DataFrame) -> DataFrame:
    """Static names for the groups."""
    counted = words.groupBy("k").count()
    return counted.join(F.broadcast(_names(words)), "k", "left").select("name", "k", "count")


@case(WORDS, mode="update", source="StreamingJoinSuite: static left side, streaming right side")
def static_left_side(words: DataFrame) -> DataFrame:
    """The static frame is the left side of a right outer join."""
    return _names(words).join(words, "k", "right").groupBy("name", "k").agg(F.max("v").alias("most"))


@case(WORDS, source="StreamingJoinSuite: stream-static join behind deduplication")
def join_behind_dedup(words: DataFrame) -> DataFrame:
    """Each new key with its static rows."""
    return words.dropDuplicates(["k"]).join(_names(words), "k")


@case(EVENTS, SECOND, mode="update", source="StreamingAggregationSuite: union before an aggregate")
def union_before(events: DataFrame, second: DataFrame) -> DataFrame:
    """Two streams are counted together, by name of column."""
    swapped = second.select("v", "k", "ts")
    return events.unionByName(swapped).groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@case(EVENTS, mode="update", source="StreamingQuerySuite: one stream used twice")
def union_with_itself(events: DataFrame) -> DataFrame:
    """One stream is read on two branches."""
    return events.where("v > 3").union(events.where("k = 'a'")).groupBy("k").agg(F.sum("v").alias("total"))


@case(EVENTS, SECOND, source="MultiStatefulOperatorsSuite: union behind an aggregate")
def union_behind(events: DataFrame, second: DataFrame) -> DataFrame:
    """Windows of one stream, with the rows of another."""
    counted = events.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "10 seconds"), "k").count()
    return counted.select("k", "count").union(second.select("k", "v"))


@case(EVENTS, SECOND, source="MultiStatefulOperatorsSuite: union of two aggregates")
def union_of_two_aggregates(events: DataFrame, second: DataFrame) -> DataFrame:
    """Windows of two streams, closed by one watermark."""
    both = [
        each.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("total"))
        for each in (events, second)
    ]
    return both[0].withColumn("from", F.lit(1)).union(both[1].withColumn("from", F.lit(2)))


@case(EVENTS, SECOND, source="StreamingDeduplicationSuite: union of deduplicated streams")
def union_of_two_dedups(events: DataFrame, second: DataFrame) -> DataFrame:
    """Each branch has its own state."""
    return events.select("k").dropDuplicates().union(second.select("k").dropDuplicates())
