"""Grouping keys of every type, with the values that engines treat in special ways, and odd names of columns."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("keys")

NAN = float("nan")
NAMES = stream("k string, v long", [("a", 1), ("b", 2)], [("a", 3)], [("c", 4), ("b", 5)])


@case(
    stream("k string, j long", [(None, 1), ("a", None), (None, None)], [(None, 1), ("", 0)], [("a", None), (None, 0)]),
    mode="update",
    source="StreamingAggregationSuite: null keys",
)
def nulls(rows: DataFrame) -> DataFrame:
    """Null is a key, and differs from an empty string and from zero."""
    return rows.groupBy("k", "j").count()


@case(
    stream("d double", [(NAN,), (0.0,), (1.5,)], [(-0.0,), (NAN,), (None,)], [(float("inf"),), (-0.0,), (-NAN,)]),
    mode="update",
    source="DataFrameAggregateSuite: SPARK-32136, NormalizeFloatingPointNumbers",
)
def nan_and_negative_zero(rows: DataFrame) -> DataFrame:
    """All NaN are one key, and -0.0 is 0.0."""
    return rows.groupBy("d").agg(F.count("*").alias("n"))


@case(
    stream("f float, v long", [(NAN, 1), (0.0, 2)], [(-0.0, 3), (NAN, 4)]),
    mode="update",
    source="NormalizeFloatingPointNumbers: nested types",
)
def negative_zero_inside(rows: DataFrame) -> DataFrame:
    """Floating-point numbers inside a struct and an array are normalised as well."""
    keys = F.struct("f").alias("in_struct"), F.array("f").alias("in_array")
    return rows.groupBy(*keys).agg(F.sum("v").alias("total"))


@case(
    stream(
        "p struct<x:int,y:string>, v long",
        [((1, "a"), 1), ((1, None), 2), (None, 3)],
        [((1, "a"), 4), ((None, None), 5)],
        [(None, 6), ((1, None), 7)],
    ),
    mode="update",
    source="StreamingAggregationSuite: struct keys",
)
def structs(rows: DataFrame) -> DataFrame:
    """A struct of nulls differs from null."""
    return rows.groupBy("p").agg(F.sum("v").alias("total")).select("p", "p.x", "total")


@case(
    stream(
        "a array<int>, v long",
        [([1, 2], 1), ([2, 1], 2), ([], 3), (None, 4)],
        [([1, 2], 5), ([None], 6)],
        [([], 7), ([None], 8), ([1, 2, 3], 9)],
    ),
    mode="update",
    source="DataFrameAggregateSuite: array keys",
)
def arrays(rows: DataFrame) -> DataFrame:
    """Arrays are equal if their elements are, in order."""
    return rows.groupBy("a").agg(F.sum("v").alias("total"), F.count("*").alias("n"))


@case(
    stream("m map<string,int>, v long", [([("a", 1), ("b", 2)], 1)], [([("b", 2), ("a", 1)], 2), ([], 3)]),
    mode="update",
    source="DataFrameAggregateSuite: SPARK-47430, group by map type",
)
def maps(rows: DataFrame) -> DataFrame:
    """Maps are equal whatever the order of their entries."""
    return rows.groupBy("m").agg(F.sum("v").alias("total")).select(F.sort_array(F.map_keys("m")).alias("m"), "total")


@case(
    stream("b binary, v long", [(b"\x00\xff", 1), (b"", 2)], [(b"\x00\xff", 3), (b"\x00", 4)], [(None, 5), (b"", 6)]),
    mode="update",
    source="DataFrameAggregateSuite: binary keys",
)
def binary(rows: DataFrame) -> DataFrame:
    """Binary keys are equal by content."""
    return rows.groupBy("b").agg(F.sum("v").alias("total"))


@case(
    stream(
        "n decimal(20,4), day date, ok boolean",
        [(Decimal("1.5"), date(2024, 2, 29), True), (Decimal("-0.0001"), date(1582, 10, 4), False)],
        [(Decimal("1.5000"), date(2024, 2, 29), True), (None, None, None)],
        [(Decimal("9999999999999999.9999"), date(9999, 12, 31), True), (Decimal("-0.0001"), date(1582, 10, 4), False)],
    ),
    mode="update",
    source="StreamingAggregationSuite: decimal, date and boolean keys",
)
def decimals_dates_booleans(rows: DataFrame) -> DataFrame:
    """Wide decimals, early and late dates."""
    return rows.groupBy("n", "day", "ok").count()


@case(
    stream("t tinyint, s smallint, i int, f float", [(1, -1, 7, 0.1), (None, 2, 8, 0.2)], [(1, -1, 7, 0.1)]),
    mode="update",
    source="StreamingAggregationSuite: narrow types",
)
def narrow_numbers(rows: DataFrame) -> DataFrame:
    """Narrow integers and single-precision numbers, as keys and as values."""
    return rows.groupBy("t", "s", "f").agg(F.sum("t"), F.sum("i"), F.avg("f"), F.max("s"), F.min("f"))


@case(
    stream("ts timestamp, v long", [(0, 1), (0.000001, 2)], [(0, 3), (-2_000_000_000, 4)], [(None, 5)]),
    mode="update",
    source="StreamingAggregationSuite: timestamp keys",
)
def timestamps(rows: DataFrame) -> DataFrame:
    """Timestamps to the microsecond, with and without time zone."""
    return rows.groupBy("ts", F.col("ts").cast("timestamp_ntz").alias("local")).agg(F.sum("v").alias("total"))


@case(NAMES, mode="update", source="StreamingAggregationSuite: expressions as keys")
def expressions(rows: DataFrame) -> DataFrame:
    """Keys are expressions, one of them a constant."""
    return rows.groupBy((F.col("v") % 2).alias("odd"), F.lit("same").alias("same"), F.length("k")).count()


@case(NAMES, mode="update", source="DataFrameAggregateSuite: duplicate and ambiguous names")
def duplicate_names(rows: DataFrame) -> DataFrame:
    """Several result columns have the same name."""
    return rows.groupBy("k").agg(F.sum("v").alias("k"), F.max("v").alias("x"), F.min("v").alias("x"))


@case(NAMES, mode="update", source="DataFrameSuite: column names with dots")
def odd_names(rows: DataFrame) -> DataFrame:
    """Names with dots, spaces, backticks and letters of other scripts."""
    renamed = rows.select(F.col("k").alias("a.b"), F.col("v").alias("größe (m)"))
    return renamed.groupBy("`a.b`").agg(F.sum("größe (m)").alias("to`tal"), F.count("*").alias(""))


@case(NAMES, mode="update", conf={"spark.sql.caseSensitive": "true"}, source="SQLConf: spark.sql.caseSensitive")
def case_sensitive_names(rows: DataFrame) -> DataFrame:
    """Names that differ only in case are two columns."""
    both = rows.select("k", F.upper("k").alias("K"), "v")
    return both.groupBy("K").agg(F.max("k").alias("v"), F.sum("v").alias("V"))


@case(
    stream("k string, v long", [("a", 1), ("A", 2), ("ä", 3)], [("a\x00", 4), ("A", 5)], [("Ä", 6), ("😀" * 40, 7)]),
    mode="update",
    source="CollationSuite: group by; StreamingAggregationSuite: strings",
)
def strings(rows: DataFrame) -> DataFrame:
    """Strings are compared by their bytes."""
    return rows.groupBy("k").agg(F.sum("v").alias("total"))


@case(
    stream("k string, v long", [("a", 1), ("A", 2)], [("B", 4), ("a", 5)], [("b", 6)]),
    mode="update",
    fails=True,
    source="CollationSuite: group by collated column",
)
def collated_strings(rows: DataFrame) -> DataFrame:
    """With a collation, different strings are one key, which Spark's state store does not support."""
    return (
        rows.groupBy(F.collate("k", "UTF8_LCASE").alias("k"))
        .agg(F.sum("v").alias("total"))
        .select(F.lower("k"), "total")
    )
