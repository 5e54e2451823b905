"""Python functions, generators and the time of the batch, before and behind a stateful operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas import functions as pandas_functions

from conformance.program import Kind, stream
from conformance.programs.aggregation import WORDS
from conformance.programs.windows import EVENTS

case = Kind("python functions")

pandas_udf: Any = pandas_functions.pandas_udf
"""Its overloads have no form for annotated functions."""


@case(WORDS, mode="update", source="python: test_streaming, udf before an aggregate")
def udf_before(words: DataFrame) -> DataFrame:
    """A Python function computes the key."""
    shout = F.udf(lambda text: None if text == "d" else text.upper() + "!", "string")
    return words.groupBy(shout("k").alias("key")).agg(F.sum("v").alias("total"))


@case(WORDS, mode="update", source="python: test_udf, udf behind an aggregate")
def udf_behind(words: DataFrame) -> DataFrame:
    """A Python function of the key and of an aggregate."""
    label = F.udf(lambda key, count: {"key": key, "bar": "*" * count}, "key string, bar string")
    counted = words.groupBy("k").agg(F.count("*").cast("int").alias("n"), F.collect_list("v").alias("values"))
    total = F.udf(lambda values: sum(values), T.LongType())
    return counted.select(label("k", "n").alias("label"), total("values").alias("total"))


@case(WORDS, mode="update", source="python: test_pandas_udf_scalar, before and behind an aggregate")
def pandas_udf_on_both_sides(words: DataFrame) -> DataFrame:
    """Vectorised Python functions."""

    def plus_one(values: pd.Series) -> pd.Series:
        return values + 1

    plus = pandas_udf(plus_one, "long")
    counted = words.withColumn("w", plus("v")).groupBy("k").agg(F.sum("w").alias("total"))
    return counted.withColumn("more", plus("total")).where(plus("total") > 3)


@case(WORDS, mode="update", source="python: test_pandas_map, mapInPandas before an aggregate")
def map_in_pandas_before(words: DataFrame) -> DataFrame:
    """A function of whole batches that changes the number of rows."""

    def doubled(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame[frame.v > 0]
            yield frame.assign(k="all")

    return words.mapInPandas(doubled, "k string, v long").groupBy("k").agg(F.sum("v").alias("total"))


@case(EVENTS, source="python: test_pandas_map, mapInPandas behind an aggregate")
def map_in_pandas_behind(events: DataFrame) -> DataFrame:
    """A function of the closed windows."""

    def chosen(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(name=frame.k + frame.n.astype(str))[["name"]]

    counted = events.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "10 seconds"), "k")
    return counted.agg(F.count("*").alias("n")).select("k", "n").mapInPandas(chosen, "name string")


@case(WORDS, mode="update", fails=True, source="python: test_pandas_udf_grouped_agg on a stream")
def pandas_aggregate(words: DataFrame) -> DataFrame:
    """An aggregate in pandas has no buffer, so Spark refuses it."""

    def mean(values: pd.Series) -> float:
        return float(values.mean())

    return words.groupBy("k").agg(pandas_udf(mean, "double")("v").alias("mean"))


@case(WORDS, mode="update", source="python: test_udf, a function that raises")
def udf_of_nulls(words: DataFrame) -> DataFrame:
    """A Python function that returns null for some rows, used in a filter."""
    odd = F.udf(lambda value: None if value == 4 else value % 2 == 1, "boolean")
    return words.where(odd("v")).groupBy("k").count()


@case(
    stream("k string, v long", [("a", 1)], [("b", 2), ("a", 0)], [("c", 3)]),
    mode="update",
    fails=True,
    source="python: test_udf, an error in a task",
)
def udf_that_raises(rows: DataFrame) -> DataFrame:
    """An error of a Python function fails the query."""
    inverse = F.udf(lambda value: 1.0 / value, "double")
    return rows.groupBy("k").agg(F.sum(inverse("v")).alias("sum"))


@case(
    stream(
        "k string, parts array<string>", [("a", ["x", "y"]), ("b", [])], [("b", ["x"]), ("c", None)], [("a", ["y"])]
    ),
    mode="update",
    source="StreamingAggregationSuite: explode before an aggregate",
)
def explode_before(rows: DataFrame) -> DataFrame:
    """A row per element, none for an empty array, one with null if outer."""
    return rows.select("k", F.explode_outer("parts").alias("part")).groupBy("part").count()


@case(WORDS, mode="update", source="StreamingAggregationSuite: explode behind an aggregate")
def explode_behind(words: DataFrame) -> DataFrame:
    """The values of each group as rows, with their position."""
    listed = words.groupBy("k").agg(F.collect_list("v").alias("values"))
    return listed.select("k", F.posexplode("values").alias("at", "value"))


@case(WORDS, mode="update", source="StreamingAggregationSuite: current_timestamp behind an aggregate")
def batch_time_behind(words: DataFrame) -> DataFrame:
    """The time of the batch behind the aggregate; only what does not change is emitted."""
    timed = words.groupBy("k").count().withColumns({"now": F.current_timestamp(), "day": F.current_date()})
    recent = timed.where("now > timestamp'2020-01-01'")
    return recent.select("k", "count", (F.col("now").cast("date") == F.col("day")).alias("same_day"))


@case(EVENTS, mode="update", source="StreamingAggregationSuite: prune results by current_time")
def pruned_by_batch_time(events: DataFrame) -> DataFrame:
    """Groups are kept by their age, which the time of the batch decides."""
    counted = events.groupBy("k").agg(F.max("ts").alias("newest"))
    return counted.where(F.col("newest") < F.current_timestamp()).select("k", "newest")
