"""Aggregates by key: output modes, groupings, and the shape of the query behind the aggregate."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("aggregation")

WORDS = stream(
    "k string, v long",
    [("a", 1), ("b", 2), ("a", 3)],
    [("c", 4)],
    [],
    [("a", 5), ("c", -4), ("d", 0)],
)
SALES = stream(
    "city string, item string, v long",
    [("x", "p", 1), ("x", "q", 2), ("y", "p", 3)],
    [("y", "q", 4), ("x", "p", 5), (None, "p", 6)],
    [("z", None, 7), (None, None, 8), ("x", "q", 9)],
)


@case(WORDS, mode="update", source="StreamingAggregationSuite: simple count, update mode")
def count_update(words: DataFrame) -> DataFrame:
    """Update mode emits the groups of the batch."""
    return words.groupBy("k").count()


@case(WORDS, mode="complete", source="StreamingAggregationSuite: count distinct")
def count_complete(words: DataFrame) -> DataFrame:
    """Complete mode emits all groups in every batch."""
    return words.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@case(WORDS, fails=True, source="UnsupportedOperationsSuite: aggregate without watermark in append mode")
def append_without_watermark(words: DataFrame) -> DataFrame:
    """Append mode needs a watermark."""
    return words.groupBy("k").count()


@case(WORDS, mode="complete", ordered=True, source="StreamingAggregationSuite: sort after aggregate in complete mode")
def sorted_complete(words: DataFrame) -> DataFrame:
    """Complete mode can be sorted, and the order is kept."""
    return words.groupBy("k").agg(F.sum("v").alias("total")).orderBy(F.desc("total"), "k")


@case(WORDS, mode="complete", ordered=True, source="StreamSuite: streaming limit with stateful operator")
def top_two_complete(words: DataFrame) -> DataFrame:
    """The two largest groups so far."""
    return words.groupBy("k").count().orderBy(F.desc("count"), F.asc("k")).limit(2)


@case(WORDS, mode="update", fails=True, source="UnsupportedOperationsSuite: sorting in update mode")
def sorted_update(words: DataFrame) -> DataFrame:
    """Only complete mode can be sorted."""
    return words.groupBy("k").count().orderBy("k")


@case(WORDS, mode="update", repeats=True, source="StreamingAggregationSuite: global aggregate")
def global_update(words: DataFrame) -> DataFrame:
    """An aggregate without keys has one row."""
    return words.agg(F.count("*").alias("n"), F.sum("v").alias("total"), F.min("k"), F.max("k"))


@case(
    stream("v long", [], [(1,)], [], [(2,), (None,)]),
    mode="complete",
    source="StreamingAggregationSuite: global aggregate over empty input",
)
def global_complete_after_nothing(values: DataFrame) -> DataFrame:
    """The first batch with rows begins at zero, and null is not counted."""
    return values.agg(F.count("v"), F.sum("v"), F.avg("v"))


@case(SALES, mode="update", source="SQL reference: GROUP BY ROLLUP")
def rollup(sales: DataFrame) -> DataFrame:
    """Subtotals; a null key differs from the null of a total."""
    return sales.rollup("city", "item").agg(F.sum("v").alias("total"), F.grouping_id().alias("level"))


@case(SALES, mode="complete", source="SQL reference: GROUP BY CUBE")
def cube(sales: DataFrame) -> DataFrame:
    """All subtotals."""
    return sales.cube("city", "item").agg(F.count("*").alias("n"), F.grouping("city").alias("all_cities"))


@case(SALES, mode="update", source="SQL reference: GROUPING SETS")
def grouping_sets(sales: DataFrame) -> DataFrame:
    """Chosen subtotals."""
    sets = [[F.col("city")], [F.col("item")], []]
    return sales.groupingSets(sets, "city", "item").agg(F.sum("v").alias("total"))


@case(SALES, mode="update", source="DataFramePivotSuite: pivot with aggregates that PivotFirst does not support")
def pivot(sales: DataFrame) -> DataFrame:
    """A pivot with given values is an aggregate per value; one that never occurs has nulls."""
    text = F.max(F.col("v").cast("string")).alias("most")
    return sales.groupBy("city").pivot("item", ["p", "q", "none"]).agg(text, F.collect_list("v").alias("all"))


@case(SALES, mode="complete", fails=True, source="DataFramePivotSuite: pivot with PivotFirst")
def pivot_of_numbers(sales: DataFrame) -> DataFrame:
    """Spark plans a pivot of numbers as two aggregates, which complete mode does not permit."""
    return sales.groupBy("item").pivot("city", ["x", "y"]).max("v")


@case(SALES, mode="update", source="StreamingAggregationSuite: distinct")
def distinct(sales: DataFrame) -> DataFrame:
    """Distinct rows of two columns."""
    return sales.select("city", "item").distinct()


@case(
    stream("ts timestamp, k string", [(1, "a"), (1, "a"), (5, "a")], [(30, "b")], [(2, "a"), (30, "b")], [(90, "c")]),
    source="UnsupportedOperationsSuite: distinct in append mode",
)
def distinct_append(events: DataFrame) -> DataFrame:
    """Distinct rows leave the state when the watermark passes their time."""
    return events.withWatermark("ts", "10 seconds").distinct()


@case(WORDS, mode="update", fails=True, source="UnsupportedOperationsSuite: distinct aggregate")
def count_of_distinct_values(words: DataFrame) -> DataFrame:
    """An aggregate over distinct values needs all values."""
    return words.groupBy("k").agg(F.count_distinct("v"))


@case(WORDS, mode="update", source="StreamingAggregationSuite: filter on aggregate")
def having(words: DataFrame) -> DataFrame:
    """Groups appear once they pass the condition."""
    return words.groupBy("k").agg(F.sum("v").alias("total"), F.count("*").alias("n")).where("total > 3 OR n > 2")


@case(WORDS, mode="update", source="SQL reference: aggregate FILTER clause")
def filters(words: DataFrame) -> DataFrame:
    """Each aggregate has its own filter."""
    positive, odd = "count(*) FILTER (WHERE v > 0) AS positive", "sum(v) FILTER (WHERE v % 2 = 1) AS odd"
    return words.groupBy("k").agg(F.expr(positive), F.expr(odd), F.expr("max(v) FILTER (WHERE k < 'b') AS early"))


@case(WORDS, mode="update", source="StreamingAggregationSuite: expressions over aggregates")
def expressions(words: DataFrame) -> DataFrame:
    """Aggregates and keys inside larger expressions; one aggregate used twice."""
    total, count = F.sum("v"), F.count("*")
    spread = F.max("v") - F.min("v")
    return words.groupBy(F.upper("k").alias("key")).agg(
        (total / count).alias("mean"), (total * 2 + 1).alias("twice"), F.concat("key", count.cast("string")), spread
    )


@case(WORDS, mode="update", source="StreamingAggregationSuite: no aggregates")
def columns_behind(words: DataFrame) -> DataFrame:
    """Projections, a drop and a rename behind the aggregate."""
    counted = words.groupBy("k", (F.col("v") % 2).alias("odd")).agg(F.count("*").alias("n"), F.max("v").alias("most"))
    return counted.withColumn("label", F.format_string("%s-%d", "k", "n")).drop("most").withColumnRenamed("n", "rows")


@case(WORDS, mode="update", source="DataFrameAggregateSuite: agg with a dictionary")
def dictionary(words: DataFrame) -> DataFrame:
    """Aggregates as a dictionary have generated names."""
    return words.groupBy("k").agg({"v": "sum", "*": "count"})


@case(
    WORDS, mode="update", source="StreamingAggregationSuite: prune results by current_time, shorthands of grouped data"
)
def shorthand(words: DataFrame) -> DataFrame:
    """`GroupedData.avg` and its relatives take several columns."""
    return words.withColumn("w", F.col("v") * 10).groupBy("k").avg("v", "w")
