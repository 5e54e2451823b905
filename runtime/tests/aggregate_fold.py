"""Random micro-batches, their fold through a compiled aggregation, and the comparison of its result with Spark's."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from compiled import Compiled
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from binshift.operators.add_stored import AddStored
from binshift.operators.merge import merge
from binshift.rows import RowCodec
from binshift.spark.plan.opaque import SparkMerge
from binshift.spark.stages.aggregateplan import AggregatePlan

DDL = (
    "id bigint, i int, l bigint, x double, f float, d decimal(12,2), w decimal(38,2), s string, b binary, ok boolean, "
    "ts timestamp, ntz timestamp_ntz, day date, st struct<a: int, t: string>, arr array<int>, iv interval day to second"
)
START = datetime.datetime(2024, 3, 30, 22, 0, tzinfo=datetime.UTC)


def rows(seed: int, count: int, first_id: int) -> list[tuple[Any, ...]]:
    """Random rows for `DDL`, about one value in six null, with floats and strings that often cause errors."""
    random = np.random.default_rng(seed)
    floats = [0.0, -0.0, math.nan, math.inf, 1.5, -2.25, 1e10]

    def some(value: Any) -> Any:
        return None if random.random() < 1 / 6 else value

    def row(n: int) -> tuple[Any, ...]:
        small, text = int(random.integers(-5, 6)), str(random.choice(["", "a", "B", "é", "\U0001f600", "\uffee", "ab"]))
        rest = (b"", b"\xff", b"\xc3")[int(random.integers(0, 3))]  # as a string, it is not UTF-8
        moment = START + datetime.timedelta(milliseconds=int(random.integers(0, 7_200_000)))
        exact = Decimal(int(random.integers(-10_000, 10_000))).scaleb(-2)
        return (
            *(first_id + n, some(small), some(small * 10**9), some(float(random.choice(floats))), some(float(small))),
            *(some(exact), some(exact), some(text), some(text.encode() + rest), some(bool(small > 0)), some(moment)),
            *(some(moment.replace(tzinfo=None)), some(moment.date()), some((some(small % 2), some(text)))),
            *(some([small, 1]), some(datetime.timedelta(seconds=small))),
        )

    return [row(n) for n in range(count)]


def micro_batches(spark: SparkSession) -> list[DataFrame]:
    """Three micro-batches of one schema, each a separate frame, the last one small."""
    sizes = (150, 150, 20)
    return [
        spark.createDataFrame(rows(seed, size, 1000 * seed), DDL, verifySchema=False).coalesce(2).cache()
        for seed, size in enumerate(sizes)
    ]


def fold(made: Compiled, batches: Sequence[DataFrame]) -> DataFrame:
    """The epochs of a query: partial, merge with the stored rows, and finally the final expressions."""
    plan = made.plan
    keys, values = RowCodec(plan.key_schema), RowCodec(plan.buffer_schema, canonical=False)
    stored: dict[bytes, bytes] = {}
    spark = batches[0].sparkSession
    for batch in batches:
        table = made.partial(batch).toArrow().combine_chunks()
        if not table.num_rows:
            continue
        new = table.to_batches()[0]
        packed = keys.pack(one(new.select(plan.key_schema.names), plan.key_schema))
        assert len(set(packed.to_pylist())) == len(packed)
        old = values.unpack(pa.array([stored.get(key) for key in packed.to_pylist()], pa.binary()))
        new = merged_by_spark(plan, spark, new, old)
        merged = merge(plan.merges, old, one(new.select(plan.buffer_schema.names), plan.buffer_schema))
        stored.update(zip(packed.to_pylist(), values.pack(merged).to_pylist(), strict=True))
    left = keys.unpack(pa.array(list(stored), pa.binary()))
    right = values.unpack(pa.array(list(stored.values()), pa.binary()))
    state = pa.table([*left.columns, *right.columns], names=plan.merged_type.names)
    return plan.final(spark.createDataFrame(state, plan.merged_type))


def merged_by_spark(
    plan: AggregatePlan, spark: SparkSession, new: pa.RecordBatch, old: pa.RecordBatch
) -> pa.RecordBatch:
    """The new rows; buffers that only Spark understands are merged with the stored ones."""
    if not plan.merged_by_spark:
        return new
    merge = SparkMerge(
        AddStored(plan.key_schema, plan.buffer_schema, tuple(plan.merged_by_spark)), plan.merged_by_spark
    )
    with_stored = merge.read_schema(plan.merged_type)
    stored = [old.column(name) for name in plan.merged_by_spark]
    rows = pa.table([*new.columns, *stored], names=with_stored.names)
    return merge.applied(spark.createDataFrame(rows, with_stored)).toArrow().combine_chunks().to_batches()[0]


def one(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return batch.cast(schema)


def union(batches: Sequence[DataFrame]) -> DataFrame:
    whole = batches[0]
    for batch in batches[1:]:
        whole = whole.unionAll(batch)
    return whole


def shapes(schema: StructType) -> list[tuple[str, str, bool]]:
    return [(field.name, field.dataType.json(), field.nullable) for field in schema]


def assert_same(found: DataFrame, wanted: DataFrame, keys: int) -> None:
    """Equal names, types and nullability; equal rows in any order, floats within 1e-9."""
    assert shapes(found.schema) == shapes(wanted.schema)
    left, right = (
        sorted((tuple(row) for row in frame.collect()), key=lambda row: repr(row[:keys])) for frame in (found, wanted)
    )
    assert len(left) == len(right)
    for ours, theirs in zip(left, right, strict=True):
        for name, a, b in zip(found.columns, ours, theirs, strict=True):
            assert same(a, b), f"{name} of {theirs[:keys]}: {a!r}, not {b!r}"


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)


def simple() -> list[Column]:
    """One function each, over every type that it accepts."""
    return [
        *(
            F.count("*").alias("n"),
            F.count("x"),
            F.count(F.struct("x")),
            F.expr("count(s, x)"),
            F.count_if(F.col("i") > 0),
        ),
        *(F.sum(c) for c in ("i", "l", "x", "f", "d", "w", "iv")),
        *(F.avg(c) for c in ("i", "x", "f", "d", "w", "iv")),
        *(f(c) for f in (F.min, F.max) for c in ("i", "x", "f", "d", "s", "b", "ok", "ts", "ntz", "day", "iv")),
        *(F.try_sum("l"), F.try_sum("d"), F.try_avg("i"), F.try_avg("d")),
        *(F.bool_and("ok"), F.bool_or("ok"), F.expr("any(ok)"), F.bit_and("i"), F.bit_or("l"), F.bit_xor("i")),
        *(F.max_by("s", "id"), F.min_by("st", "id"), F.max_by("arr", F.col("x") + F.col("id") * 0 + F.col("id") / 7)),
        *(F.sort_array(F.collect_set(c)) for c in ("i", "x", "s", "d", "ts")),
        *(f(F.col("b").cast("string")).cast("binary").alias(f"{f.__name__} of any bytes") for f in (F.min, F.max)),
        F.sort_array(F.collect_set(F.col("b").cast("string")).cast("array<binary>")).alias("set.of any bytes"),
        F.max_by(F.col("b").cast("string"), "id").cast("binary").alias("the last"),
        F.size(F.collect_list("s")),
    ]


def composite() -> list[Column]:
    """Expressions over aggregates, FILTER clauses, expressions within aggregates."""
    return [
        (F.sum("d") / F.count("*")).alias("r"),
        F.round(F.avg("x"), 2),
        F.when(F.max("i") > F.min("i"), F.concat(F.max("s"), F.lit("!"))).otherwise(F.lit(None)).alias("c"),
        F.expr("sum(d) FILTER (WHERE i > 0) AS positive"),
        F.expr("count(*) FILTER (WHERE ok AND x BETWEEN 0 AND 2)"),
        F.expr("avg(l) FILTER (WHERE s IS NOT NULL) - avg(l)"),
        F.expr("nullif(sum(i), 0)"),
        F.expr("max_by(s, id) FILTER (WHERE i > 0)"),
        F.struct(F.min("ts").alias("from"), F.max("ts").alias("to")).alias("span"),
        F.sum(F.col("i") * 2 + 1),
        F.sum(F.expr("aggregate(arr, 0, (a, e) -> a + e)")),
        F.sum(F.col("st.a")),
        F.lit(7).alias("constant"),
    ]


def moments() -> list[Column]:
    """The aggregates whose buffers are doubles."""
    return [
        *(F.stddev("i"), F.stddev_pop("d"), F.variance("l"), F.var_pop("i"), F.skewness("i"), F.kurtosis("f")),
        *(
            F.corr("i", "d"),
            F.covar_pop("i", "f"),
            F.covar_samp("i", "d"),
            F.expr("regr_r2(i, d)"),
            F.regr_count("i", "d"),
        ),
        *(F.regr_avgx("i", "d"), F.product("f"), F.expr("stddev(x)"), F.expr("var_samp(i) FILTER (WHERE ok)")),
        F.expr("corr(i, d) FILTER (WHERE ok)"),
    ]


def tumbling() -> list[Column | str]:
    return [F.window("ts", "20 minutes"), "s"]


def opaque() -> list[Column]:
    """What only Spark can merge: one function each, over types that binshift has rules for, and over others."""
    texts = [
        *(
            "approx_count_distinct(s)",
            "approx_count_distinct(x, 0.2)",
            "percentile(x, 0.25)",
            "percentile(l, array(0, 1))",
        ),
        *("percentile_approx(d, 0.5)", "median(f)", "mode(s, true)", "histogram_numeric(i, 3)"),
        *("listagg(s, '-') WITHIN GROUP (ORDER BY s, id)", "listagg(b) WITHIN GROUP (ORDER BY b)", "regr_slope(x, f)"),
        *("hll_sketch_estimate(hll_sketch_agg(i))", "bitmap_count(bitmap_construct_agg(bitmap_bit_position(i)))"),
        *("min(st)", "max(arr)", "min_by(id, struct(arr, id))", "max_by(arr, struct(iv, id))"),
        *("sort_array(collect_set(st))", "map_keys(first(map(id, s)))", "percentile(i, 0.5) FILTER (WHERE ok)"),
        *("kll_sketch_get_n_bigint(kll_sketch_agg_bigint(id))", "count_min_sketch(i, 0.5d, 0.5d, 1)", "regr_sxy(x, f)"),
    ]
    return [F.expr(text).alias(f"c{at}") for at, text in enumerate(texts)]
