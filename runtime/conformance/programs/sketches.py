"""Aggregates whose buffers only Spark understands, in every output mode and behind every kind of group."""

from __future__ import annotations

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("sketches")

READINGS = stream(
    "ts timestamp, k string, v long, s string",
    [(10, "a", 4, "x"), (11, "a", 1, "y"), (12, "b", None, None)],
    [(21, "a", 6, None), (13, "b", 3, "z"), (14, "a", 9, "x")],
    [(35, "b", 3, "x"), (36, "c", 9, "q")],
    [(12, "a", 5, "late"), (38, "c", 2, "q")],
    [],
    [(90, "d", 1, "w")],
)


def _windows(readings: DataFrame) -> GroupedData:
    window = F.window("ts", "10 seconds").alias("window")
    return readings.withWatermark("ts", "5 seconds").groupBy(window, "k")


@case(READINGS, source="StreamingAggregationSuite: append mode; ApproximatePercentileQuerySuite")
def windows(readings: DataFrame) -> DataFrame:
    """Percentiles and estimates of windows, emitted when a window is closed; late rows are dropped."""
    found = F.percentile("v", [0.0, 0.5]).alias("exact"), F.approx_count_distinct("s").alias("different")
    return _windows(readings).agg(*found, F.sum("v").alias("total"))


@case(READINGS, mode="update", source="StreamingAggregationSuite: update mode; PercentileQuerySuite")
def windows_updated(readings: DataFrame) -> DataFrame:
    """The same windows, emitted when they change."""
    return _windows(readings).agg(F.median("v").alias("middle"), F.mode("s", True).alias("mode"), F.max("v"))


@case(READINGS, mode="complete", source="StreamingAggregationSuite: complete mode; DataFrameAggregateSuite: listagg")
def complete(readings: DataFrame) -> DataFrame:
    """All groups in every batch, sorted by an aggregate."""
    return readings.groupBy("k").agg(F.listagg("s", ",").alias("all"), F.median("v").alias("m")).orderBy("k")


@case(READINGS, mode="complete", source="DataFrameAggregateSuite: approx_count_distinct without keys")
def without_keys(readings: DataFrame) -> DataFrame:
    """One group, which has a value before its first row."""
    found = readings.where("k <> 'a' AND v IS NOT NULL")
    return found.agg(F.approx_count_distinct("s"), F.percentile_approx("v", 0.5), F.count("*"))


@case(READINGS, source="StreamingSessionWindowSuite: append mode; PercentileQuerySuite")
def sessions(readings: DataFrame) -> DataFrame:
    """Buffers of sessions that become one are merged."""
    session = F.session_window("ts", "12 seconds").alias("session")
    grouped = readings.withWatermark("ts", "5 seconds").groupBy(session, "k")
    found = grouped.agg(F.percentile("v", 0.5).alias("m"), F.listagg("s").alias("all"), F.count("*").alias("n"))
    return found.select("k", "session.start", "session.end", "m", "all", "n")


@case(READINGS, mode="update", source="DataFrameAggregateSuite: FILTER of aggregates")
def filtered(readings: DataFrame) -> DataFrame:
    """Rows that do not pass the filter of an aggregate do not count for it."""
    return readings.groupBy("k").agg(
        F.expr("percentile(v, 0.5) FILTER (WHERE s <> 'x')").alias("m"),
        F.expr("listagg(s, '-') WITHIN GROUP (ORDER BY s DESC) FILTER (WHERE v > 1)").alias("all"),
    )


@case(
    READINGS,
    mode="update",
    source="CountMinSketchAggQuerySuite: streaming; BitmapExpressionsQuerySuite, KllSketchSuite",
)
def binary_sketches(readings: DataFrame) -> DataFrame:
    """Sketches as values."""
    return (
        readings.where("v IS NOT NULL")
        .groupBy("k")
        .agg(
            F.count_min_sketch("v", F.lit(0.5), F.lit(0.5), F.lit(1)).alias("counts"),
            F.bitmap_count(F.bitmap_construct_agg(F.expr("bitmap_bit_position(v)"))).alias("bits"),
            F.expr("kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(v), 0.5)").alias("kll"),
            F.expr("theta_sketch_estimate(theta_sketch_agg(v))").alias("theta"),
            F.histogram_numeric("v", F.lit(3)).alias("histogram"),
        )
    )


@case(READINGS, mode="update", source="DataFrameAggregateSuite: maps and arrays")
def values_without_rule(readings: DataFrame) -> DataFrame:
    """Values of types that only Spark can compare or keep: arrays, maps."""
    found = readings.where("s IS NOT NULL").groupBy("k")
    return found.agg(
        F.min(F.array("v", F.lit(4))).alias("pair"),
        F.map_keys(F.first(F.create_map("s", "v"))).alias("first"),
        F.max_by("s", F.array("v")).alias("by"),
        F.size(F.collect_list(F.create_map("s", "v"))).alias("maps"),
    )


@case(READINGS, mode="update", source="LinearRegressionSuite of DataFrameAggregateSuite: regr functions")
def regressions(readings: DataFrame) -> DataFrame:
    """Regression by least squares."""
    second = F.second("ts").cast("double")
    return readings.groupBy("k").agg(
        F.regr_slope("v", second), F.regr_intercept("v", second), F.regr_sxy("v", second), F.regr_avgx("v", second)
    )


@case(READINGS, source="MultiStatefulOperatorsSuite: window aggregation after window aggregation")
def chained(readings: DataFrame) -> DataFrame:
    """An aggregation of such an aggregation."""
    middle = _windows(readings).agg(F.median("v").alias("m")).select(F.window_time("window").alias("ts"), "m")
    return middle.groupBy(F.window("ts", "20 seconds")).agg(F.percentile("m", 0.5).alias("m"), F.count("*").alias("n"))
