"""Aggregate functions, in update mode over several batches, so that each buffer is stored and merged."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("functions")

NUMBERS = stream(
    "k string, v long, d double, s string, b boolean",
    [("a", 4, 0.5, "x", True), ("a", 1, 2.0, "y", True), ("b", None, None, None, None)],
    [("a", 6, 1.25, None, False), ("b", 3, -1.5, "z", True)],
    [("b", 3, 4.0, "x", False), ("c", 9, 0.0, "q", True), ("a", None, 8.0, "x", None)],
    [("a", 4, -3.0, "w", True), ("c", 2, 1.0, "q", True)],
)


def _grouped(numbers: DataFrame, *aggregates: Column) -> DataFrame:
    return numbers.groupBy("k").agg(*aggregates)


@case(NUMBERS, mode="update", source="StreamingAggregationSuite: count, sum, avg, min, max")
def basic(numbers: DataFrame) -> DataFrame:
    """The five basic aggregates of integers and of floating-point numbers."""
    found = [each(column) for each in (F.count, F.sum, F.avg, F.min, F.max) for column in ("v", "d")]
    return _grouped(numbers, *found, F.count("*"), F.count(F.lit(None)))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: first, last and any_value")
def first_and_last(numbers: DataFrame) -> DataFrame:
    """First and last values, with and without nulls."""
    ignoring = [F.first("s", ignorenulls=True).alias("first_s"), F.last("s", ignorenulls=True).alias("last_s")]
    return _grouped(numbers, F.first("v"), F.last("v"), *ignoring, F.any_value("d"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: collect functions")
def collected(numbers: DataFrame) -> DataFrame:
    """Lists in order of arrival, and sets."""
    sets = F.sort_array(F.collect_set("s")).alias("set"), F.size(F.collect_set("v")).alias("different")
    return _grouped(numbers, F.collect_list("v").alias("list"), F.array_agg("s").alias("strings"), *sets)


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: collect functions structs")
def collected_structs(numbers: DataFrame) -> DataFrame:
    """A list of structs."""
    return _grouped(numbers, F.collect_list(F.struct("v", F.struct("s", "d").alias("inner"))).alias("rows"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: max_by, min_by")
def by_another_column(numbers: DataFrame) -> DataFrame:
    """The value of one column where another is largest or smallest."""
    return _grouped(numbers, F.max_by("s", "d"), F.min_by("v", "d"), F.max_by(F.struct("v", "s"), "d").alias("row"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: moments")
def moments(numbers: DataFrame) -> DataFrame:
    """Central moments of a sample and of a population; one value gives null or NaN as Spark does."""
    functions = (F.stddev, F.stddev_pop, F.variance, F.var_pop, F.skewness, F.kurtosis)
    return _grouped(numbers, *(each("d") for each in functions), F.stddev_samp("v"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: corr, covar_pop, covar_samp")
def correlations(numbers: DataFrame) -> DataFrame:
    """Aggregates of two columns."""
    functions = (F.corr, F.covar_pop, F.covar_samp, F.regr_slope, F.regr_count, F.regr_r2, F.regr_intercept)
    return _grouped(numbers, *(each("v", "d") for each in functions))


@case(NUMBERS, mode="update", source="ApproximatePercentileQuerySuite: percentile_approx")
def percentiles(numbers: DataFrame) -> DataFrame:
    """Approximate and exact percentiles."""
    approximate = F.percentile_approx("d", [0.0, 0.5, 1.0], 100).alias("approximate")
    return _grouped(numbers, approximate, F.percentile("d", 0.25).alias("exact"), F.median("v").alias("middle"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: approx_count_distinct")
def distinct_estimates(numbers: DataFrame) -> DataFrame:
    """The estimated number of different values."""
    return _grouped(numbers, F.approx_count_distinct("v"), F.approx_count_distinct("s", 0.2).alias("rough"))


@case(NUMBERS, mode="update", source="DatasketchesHllSketchSuite: hll_sketch_agg")
def sketches(numbers: DataFrame) -> DataFrame:
    """A sketch as state, and its estimate."""
    return _grouped(numbers, F.hll_sketch_estimate(F.hll_sketch_agg("v", 10)).alias("different"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: count_if, bool_and, bool_or, every, some")
def conditions(numbers: DataFrame) -> DataFrame:
    """Aggregates of conditions; nulls do not count."""
    return _grouped(numbers, F.count_if(F.col("v") > 3), F.bool_and("b"), F.bool_or("b"), F.every("b"), F.some("b"))


@case(NUMBERS, mode="update", source="BitwiseAggregateSuite: bit_and, bit_or, bit_xor")
def bits(numbers: DataFrame) -> DataFrame:
    """Aggregates of bits."""
    return _grouped(numbers, F.bit_and("v"), F.bit_or("v"), F.bit_xor("v"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: mode")
def most_frequent(numbers: DataFrame) -> DataFrame:
    """The most frequent value; a tie is broken by the smallest."""
    return _grouped(numbers, F.mode("v", True).alias("mode"), F.product("d").alias("product"))


@case(NUMBERS, mode="update", source="StringAggSuite: listagg")
def strings_joined(numbers: DataFrame) -> DataFrame:
    """Strings in order of arrival, with a separator."""
    return _grouped(numbers, F.listagg("s", "-").alias("joined"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: histogram_numeric and map values")
def maps_behind(numbers: DataFrame) -> DataFrame:
    """A map made of collected entries behind the aggregate."""
    entries = F.collect_set(F.struct("s", F.length("s").alias("n"))).alias("entries")
    grouped = _grouped(numbers.where("s IS NOT NULL"), entries)
    return grouped.select("k", F.map_from_entries("entries").alias("lengths"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: min and max of structs and arrays")
def extremes_of_nested_values(numbers: DataFrame) -> DataFrame:
    """Structs and arrays are compared element by element."""
    return _grouped(numbers, F.max(F.struct("d", "s")).alias("row"), F.min(F.array("v", F.lit(4))).alias("pair"))


@case(NUMBERS, mode="update", source="DataFrameAggregateSuite: max of strings, booleans and binary")
def extremes_of_other_types(numbers: DataFrame) -> DataFrame:
    """Strings, booleans and binary values have an order."""
    return _grouped(numbers, F.max("s"), F.min("s"), F.max("b"), F.min(F.col("s").cast("binary")).alias("bytes"))


@case(
    stream(
        "k string, v string, day string",
        [("a", "1.25", "2024-01-01"), ("b", "-3.50", "2023-12-31")],
        [("a", "99999999.99", "2024-02-29"), ("b", None, None)],
        [("a", "0.01", "1900-10-01")],
    ),
    mode="update",
    source="DataFrameAggregateSuite: sum and average of decimals; extremes of dates and intervals",
)
def decimals_and_dates(values: DataFrame) -> DataFrame:
    """Decimals keep their scale; dates and intervals can be compared."""
    amount, day = F.col("v").cast("decimal(10,2)"), F.col("day").cast("date")
    found = [F.sum(amount).alias("sum"), F.avg(amount).alias("avg"), F.max(amount).alias("most")]
    age = F.max(F.lit("2024-03-01").cast("date") - day).alias("age")
    return _grouped(values, *found, F.min(day).alias("day"), age)


@case(
    stream("k string, v long", [("a", 9223372036854775800), ("b", 1)], [("b", 2)], [("a", 100)]),
    mode="update",
    source="DataFrameAggregateSuite: try_sum and try_avg return null on overflow",
)
def overflow_as_null(values: DataFrame) -> DataFrame:
    """A sum that overflows is null with `try_sum`."""
    return _grouped(values, F.try_sum("v").alias("sum"), F.try_avg("v").alias("avg"))


@case(
    stream("k string, v long", [("a", 9223372036854775800), ("b", 1)], [("a", 100)]),
    mode="update",
    fails=True,
    source="DataFrameAggregateSuite: sum overflows in ANSI mode",
)
def overflow_as_error(values: DataFrame) -> DataFrame:
    """A sum that overflows in a later batch fails the query."""
    return _grouped(values, F.sum("v").alias("sum"))
