"""A compiled aggregation, folded over micro-batches, against Spark's own ``groupBy`` over all of their rows at once.

Floats that are sums (sum, avg, the moments, product) depend on the order of addition, in Spark too: they are compared
with a relative tolerance of 1e-9. Everything else must be equal, value and type.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from aggregate_fold import assert_same, composite, fold, micro_batches, moments, opaque, simple, tumbling, union
from compiled import Compiled, compiled
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.errors import ArithmeticOverflow
from binshift.operators.merge import MergeSpec, merge


@pytest.fixture(scope="module")
def batches(spark: SparkSession) -> list[DataFrame]:
    return micro_batches(spark)


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.oracle)], ids=["ansi", "no-ansi"])
def ansi(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    spark.conf.set("spark.sql.ansi.enabled", str(request.param).lower())
    yield request.param
    spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.usefixtures("ansi")
def test_every_aggregate_gives_sparks_answer(batches: list[DataFrame]) -> None:
    """Grouped by a plain column with nulls, folded over three batches."""
    keys, aggregates = [(F.col("id") % 5).alias("five")], [*simple(), *composite(), *moments()]
    plan = Compiled(batches[0], keys, aggregates)
    assert_same(fold(plan, batches), union(batches).groupBy(*keys).agg(*aggregates), 1)


def test_each_of_these_has_a_rule(batches: list[DataFrame]) -> None:
    """None is left to Spark, as one whose class `_TABLE` misspells would be."""
    for each in (*simple(), *composite(), *moments()):
        assert not Compiled(batches[0], ["i"], [each]).plan.merged_by_spark, str(each)


@pytest.mark.usefixtures("ansi")
@pytest.mark.parametrize("keys", [["five"], []], ids=["by key", "global"])
def test_what_only_spark_can_merge_gives_sparks_answer(batches: list[DataFrame], keys: list[str]) -> None:
    """Buffers as bytes, merged by Spark with the stored ones."""
    numbered = [batch.withColumn("five", F.col("id") % 5) for batch in batches]
    plan = Compiled(numbered[0], list(keys), opaque())
    assert_same(fold(plan, numbered), union(numbered).groupBy(*keys).agg(*opaque()), len(keys))


KEYS: dict[str, Callable[[DataFrame], list[Column | str]]] = {
    "tumbling": lambda df: tumbling(),
    "sliding": lambda df: [F.window(df["ts"], "20 minutes", "5 minutes", "1 minute").alias("w")],
    "window over a time without zone": lambda df: [F.window("ntz", "20 minutes")],
    "end of a window": lambda df: [F.window("ts", "1 hour").getField("end").alias("e"), F.col("i")],
    "expressions": lambda df: [F.upper("s").alias("u"), df["i"] % 2, F.to_date("ts")],
    "struct": lambda df: ["st", F.struct("ok", F.col("x")).alias("k")],
    "struct of what is never null": lambda df: [F.struct("ok", F.lit("x"), F.struct(F.lit(1).alias("a.b"), "i"))],
    "floats": lambda df: ["x", "f"],
    "every type": lambda df: ["i", "d", "b", "ok", "day", "ntz", "iv"],
    "constant": lambda df: [F.lit("all").alias("k")],
    "python": lambda df: [F.udf(lambda i: None if i is None else i % 2, "int")("i").alias("odd")],
    "global": lambda df: [],
}


OFTEN = ("sliding", "expressions", "struct", "struct of what is never null", "floats", "global")


@pytest.mark.parametrize("name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.oracle) for n in KEYS])
def test_every_kind_of_key_groups_as_spark_does(batches: list[DataFrame], name: str) -> None:
    """Keys keep their names and types; nulls, NaN and -0.0 group as in Spark; rows without event time are in no window."""
    keys, aggregates = KEYS[name](batches[0]), [F.count("*"), F.sum("d").alias("total"), F.max("s")]
    plan, some = Compiled(batches[0], keys, aggregates), batches[1:]
    wanted = union(some).groupBy(*KEYS[name](union(some))).agg(*aggregates)
    assert_same(fold(plan, some), wanted, len(keys))


def test_of_no_rows_every_aggregate_is_as_in_spark(spark: SparkSession, batches: list[DataFrame]) -> None:
    """Merging nothing with nothing gives buffers whose result equals Spark's over an empty frame."""
    aggregates = [*simple(), *composite(), *moments(), F.first("i"), F.last("s", ignorenulls=True), F.collect_list("i")]
    plan = compiled(batches[0], [], aggregates)
    absent = pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in plan.buffer_schema], schema=plan.buffer_schema)
    nothing = merge(plan.merges, absent, absent)
    group = pa.table([pa.array([0], pa.int32()), *nothing.columns], names=plan.merged_type.names)
    found = plan.final(spark.createDataFrame(group, plan.merged_type))
    assert_same(found, batches[0].where("false").agg(*aggregates), 0)


def test_order_goes_by_epoch_and_source(spark: SparkSession, batches: list[DataFrame]) -> None:
    """For first, last, lists and ties of max_by the rows' position in the source decides, not the order of a shuffle."""
    aggregates = [
        *(F.first("i"), F.last("i"), F.first("s", ignorenulls=True), F.last("st", ignorenulls=True), F.any_value("s")),
        *(F.collect_list("i"), F.collect_list("st"), F.max_by("id", "i"), F.min_by("id", "i")),
        F.expr("last(i) FILTER (WHERE ok)"),
    ]
    mixed = [batch.repartition(3, "i").sortWithinPartitions("s").cache() for batch in batches]
    plan = Compiled(mixed[0], ["ok"], aggregates)
    found = {row[0]: tuple(row)[1:] for row in fold(plan, mixed).collect()}
    for ok, group in itertools.groupby(
        sorted((r for b in mixed for r in b.collect()), key=lambda r: repr(r.ok)), key=lambda r: r.ok
    ):
        ordered = list(group)
        present = {c: [r[c] for r in ordered if r[c] is not None] for c in ("i", "s", "st")}
        extremes = [[r.id for r in ordered if r.i == best(present["i"])][-1] for best in (max, min)]
        wanted = (
            *(ordered[0].i, ordered[-1].i, present["s"][0], present["st"][-1], ordered[0].s),
            *(present["i"], present["st"], *extremes, ordered[-1].i if ok else None),
        )
        assert found[ok] == wanted


def test_ansi_sums_overflow_as_in_spark(spark: SparkSession) -> None:
    """bigint and decimal sums that fit in each batch but not together are an error, wrapped or null; try_sum is null."""
    big = (2**63 - 1, Decimal("9" * 36 + ".99"))
    batches = [spark.createDataFrame([big], "l bigint, w decimal(38,2)") for _ in range(2)]
    for column, wanted in (("l", -2), ("w", None)):
        tries = [F.try_sum(column)] if column == "l" else [F.try_sum(column), F.try_avg(column)]
        spark.conf.set("spark.sql.ansi.enabled", "true")
        with pytest.raises(ArithmeticOverflow, match=rf"sum\({column}\): "):
            fold(Compiled(batches[0], [], [F.sum(column)]), batches)
        assert set(fold(Compiled(batches[0], [], tries), batches).first() or ()) == {None}
        spark.conf.set("spark.sql.ansi.enabled", "false")
        assert fold(Compiled(batches[0], [], [F.sum(column)]), batches).first() == (wanted,)
    spark.conf.unset("spark.sql.ansi.enabled")


def exchanges(frame: DataFrame) -> int:
    plan: Any = frame._jdf
    return str(plan.queryExecution().executedPlan().toString()).count("Exchange ")


@pytest.mark.parametrize(
    ("name", "workers"), [("tumbling", 2), ("global", 2), pytest.param("every type", 1, marks=pytest.mark.oracle)]
)
def test_one_exchange_and_the_types_that_tasks_see(batches: list[DataFrame], name: str, workers: int) -> None:
    """F, one exchange by worker, partial aggregation without a second one, S over Arrow, final: Spark's result."""
    keys, aggregates = KEYS[name](batches[0]), [*simple(), *moments()]
    made = Compiled(batches[0], keys, aggregates)
    plan = made.plan
    route = F.element_at(
        F.from_json(F.lit("[" + ",".join(str(b % workers) for b in range(8)) + "]"), "array<int>"), F.col("bin") + 1
    )
    prepared = made.prepare(batches[0])
    binned = prepared.withColumn("bin", F.pmod(F.xxhash64(*plan.key_schema.names), F.lit(8)).cast("int"))
    routed = binned.withColumn("worker", route).repartitionById(workers, F.col("worker"))
    partial = plan.partial(routed, by=["worker", "bin"])
    assert exchanges(partial) == 1
    s = task(plan.key_schema, plan.buffer_schema, plan.merges)
    assert_same(
        plan.final(partial.mapInArrow(s, plan.merged_type)), batches[0].groupBy(*keys).agg(*aggregates), len(keys)
    )


def task(keys: pa.Schema, buffers: pa.Schema, merges: tuple[MergeSpec, ...]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The minimum that S does: merge with an empty state. It uses only what can be pickled."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assert batch.select(keys.names).schema.types == keys.types
            assert batch.select(buffers.names).schema.types == buffers.types
            old = pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, f.type) for f in buffers], schema=buffers)
            merged = merge(merges, old, batch.select(buffers.names))
            yield pa.RecordBatch.from_arrays(
                [*batch.select(keys.names).columns, *merged.columns], schema=pa.schema([*keys, *buffers])
            )

    return run
