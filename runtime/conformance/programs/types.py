"""Keys and columns of types that are rare in streams."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("types")

LISTS = stream(
    "a array<int>, d array<double>, v long",
    [([1, 2], [0.0], 1), ([1, 2], [-0.0], 2), ([], [float("nan")], 3), (None, None, 4)],
    [([1, None], [float("nan")], 5), ([1, 2], [0.0, None], 6), (None, None, 7)],
    [([2, 1], [-0.0], 8), ([], [float("nan")], 9)],
)
NAMES = stream(
    "k string, v long", [("a", 1), ("A", 2), ("b", 3)], [("B", 4), ("a", 5), (None, 6)], [("b", 7), ("á", 8)]
)
OTHER_NAMES = stream("j string, w long", [("A", 10)], [("b", 20), ("a", 30)], [(None, 40), ("Á", 50)])


@case(LISTS, mode="update", source="NormalizeFloatingPointNumbers: grouping by arrays")
def arrays_of_floats_as_keys(rows: DataFrame) -> DataFrame:
    """Within arrays, NaN equals NaN and -0.0 equals 0.0."""
    return rows.groupBy("d").agg(F.sum("v").alias("total"), F.count("*"))


@case(LISTS, mode="complete", source="StreamingAggregationSuite: nested keys")
def nested_keys(rows: DataFrame) -> DataFrame:
    """A struct of an array and an array of structs."""
    nested = rows.select(F.struct("a", F.array(F.struct("v", "a")).alias("s")).alias("key"), "v")
    return nested.groupBy("key").agg(F.count("*").alias("n"))


@case(LISTS, source="StreamingDeduplicationSuite: array keys")
def distinct_arrays(rows: DataFrame) -> DataFrame:
    """Deduplication by arrays."""
    return rows.dropDuplicates(["a"]).select("a")


@case(LISTS, mode="update", source="DataFrameAggregateSuite: distinct rows with arrays")
def distinct_rows(rows: DataFrame) -> DataFrame:
    """`distinct` over arrays."""
    return rows.select("a", "d").distinct()


@case(
    LISTS,
    stream("b array<int>, w long", [([1, 2], 1)], [([], 2), (None, 3)], [([1, None], 4)]),
    source="StreamingInnerJoinSuite: array keys",
)
def joined_arrays(left: DataFrame, right: DataFrame) -> DataFrame:
    """A join by arrays."""
    return left.select("a", "v").join(right, F.expr("a = b"))


@case(
    stream("m map<string,int>, v long", [({"a": 1}, 1)], [({"a": 1}, 2)]),
    fails=True,
    source="UnsupportedOperationsSuite: map keys",
)
def distinct_maps(rows: DataFrame) -> DataFrame:
    """Nor of `dropDuplicates`."""
    return rows.dropDuplicates(["m"])


@case(
    stream("m map<string,int>, a array<map<string,int>>, v long", [({"a": 1}, [{"b": 2}], 1)], [({"b": None}, [], 2)]),
    source="StreamingDeduplicationSuite: columns of any type",
)
def maps_as_values(rows: DataFrame) -> DataFrame:
    """Maps pass through deduplication."""
    return rows.dropDuplicates(["v"])


@case(NAMES, fails=True, source="CollationSuite: distinct")
def distinct_collated(rows: DataFrame) -> DataFrame:
    """With a collation, different strings are duplicates, which Spark's state store does not support."""
    return rows.select(F.collate("k", "UTF8_LCASE").alias("k")).dropDuplicates(["k"])


@case(NAMES, source="CollationSuite: a key with a collation")
def collated_values(rows: DataFrame) -> DataFrame:
    """Collated strings pass through deduplication by another column."""
    return rows.select(F.collate("k", "UTF8_LCASE").alias("c"), "v").dropDuplicates(["v"]).where("c = 'A'")


@case(NAMES, OTHER_NAMES, source="CollationSuite: joins")
def joined_collated(left: DataFrame, right: DataFrame) -> DataFrame:
    """A join by a collation: strings that are equal by it match."""
    first = left.select(F.collate("k", "UTF8_LCASE").alias("k"), "v")
    return first.join(right.select(F.collate("j", "UTF8_LCASE").alias("j"), "w"), F.expr("k = j"))


@case(NAMES, OTHER_NAMES, source="CollationSuite: joins, with an ICU collation")
def joined_unicode(left: DataFrame, right: DataFrame) -> DataFrame:
    """A collation that ignores accents and case; the key is within a struct."""
    first = left.select(F.struct(F.collate("k", "UNICODE_CI_AI").alias("x")).alias("k"), "v")
    return first.join(
        right.select(F.struct(F.collate("j", "UNICODE_CI_AI").alias("x")).alias("j"), "w"), F.expr("k = j")
    )


@case(NAMES, OTHER_NAMES, fails=True, source="CollationSuite: conditions of joins")
def joined_collated_condition(left: DataFrame, right: DataFrame) -> DataFrame:
    """A comparison by a collation is taken for a key, and Spark's state store does not keep what it needs."""
    both = left.join(right, F.expr("v % 2 = w % 20 / 10 AND collate(k, 'UTF8_LCASE') = collate(j, 'UTF8_LCASE')"))
    return both.select("k", "j", "v", "w")


@case(NAMES, mode="update", source="CollationSuite: aggregates of collated strings")
def collated_extremes(rows: DataFrame) -> DataFrame:
    """The extremes of collated strings."""
    return rows.groupBy(F.expr("v % 2")).agg(F.max(F.collate("k", "UTF8_LCASE")), F.min(F.collate("k", "UNICODE")))


@case(NAMES, mode="update", source="StreamingAggregationSuite: intervals")
def interval_keys(rows: DataFrame) -> DataFrame:
    """Intervals of days as keys; PySpark cannot collect those of months."""
    return rows.groupBy(F.expr("make_dt_interval(0, v % 2)").alias("hours")).count()


@case(NAMES, mode="update", source="StreamingAggregationSuite: intervals as values")
def interval_sums(rows: DataFrame) -> DataFrame:
    """Sums, averages and extremes of intervals."""
    months, hours = F.expr("make_ym_interval(v, 1)"), F.expr("make_dt_interval(v, 1)")
    made = rows.groupBy("k").agg(F.sum(months), F.max(months), F.sum(hours), F.avg(hours), F.avg(months), F.min(hours))
    return made.select("k", *(F.col(f"`{name}`").cast("string") for name in made.columns[1:]))


@case(NAMES, mode="update", source="StreamingAggregationSuite: a key that is always null")
def null_key(rows: DataFrame) -> DataFrame:
    """A key of the type of null."""
    return rows.groupBy(F.lit(None).alias("nothing"), F.expr("v % 2").alias("odd")).count()


@case(NAMES, mode="update", source="StreamingAggregationSuite: variant values")
def variants(rows: DataFrame) -> DataFrame:
    """The first variant of each key."""
    parsed = rows.select("k", F.parse_json(F.concat(F.lit('{"v": '), "v", F.lit("}"))).alias("j"))
    return parsed.groupBy("k").agg(F.first("j").alias("j")).select("k", F.expr("cast(j AS string)"))


@case(NAMES, mode="update", source="StreamingAggregationSuite: binary values and dates as keys")
def odd_keys(rows: DataFrame) -> DataFrame:
    """Binary values, dates and wide decimals as keys."""
    return (
        rows.groupBy(
            F.encode("k", "UTF-8").alias("b"),
            F.expr("date_add(DATE'2024-01-01', cast(v % 2 AS int))").alias("d"),
            F.expr("cast(v % 2 AS decimal(38, 10))").alias("n"),
        )
        .agg(F.sum("v").alias("total"))
        .select("b", "d", "n", "total")
    )
