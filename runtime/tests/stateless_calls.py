"""Stateless calls of a program behind a stateful operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

WIDER = StructType([StructField("amount", LongType()), StructField("user", LongType())])


def _odd(frame: DataFrame, schema: str) -> DataFrame:
    """The rows with an odd amount; the function is an inner one, because workers cannot import a test's module."""

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in batches:
            yield each.filter(pa.compute.equal(pa.compute.bit_wise_and(each.column("amount"), 1), 1)).select(["amount"])

    return frame.mapInArrow(keep, schema)


def _odd_frames(frame: DataFrame, schema: str) -> DataFrame:
    def keep(frames: Iterator[Any]) -> Iterator[Any]:
        for each in frames:
            yield each[each["amount"] % 2 == 1][["amount"]]

    return frame.mapInPandas(keep, schema)


STATELESS: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "alias": lambda f, users: f.alias("c").select("c.user"),
    "coalesce": lambda f, users: f.coalesce(1),
    "colRegex": lambda f, users: f.select(f.colRegex("`a.*`")),
    "column of the frame": lambda f, users: f.where(f.amount > 1).select(f["amount"]),
    "crossJoin": lambda f, users: f.crossJoin(users.select("name")),
    "drop": lambda f, users: f.drop("ts", F.col("user")),
    "dropna": lambda f, users: f.dropna(subset=["amount"]),
    "explode": lambda f, users: f.select("*", F.explode(F.array(F.col("amount"), F.lit(7))).alias("each")),
    "fillna": lambda f, users: f.fillna({"amount": -1}),
    "hint": lambda f, users: f.hint("broadcast").join(users.hint("broadcast"), "user"),
    "join": lambda f, users: f.join(users, ["user"], "left"),
    "join by the frame": lambda f, users: f.join(users, f.user == users.user).drop(users.user),
    "mapInArrow": lambda f, users: _odd(f, "amount bigint"),
    "mapInPandas": lambda f, users: _odd_frames(f.dropna(), "amount bigint"),
    "melt": lambda f, users: f.melt("ts", ["user", "amount"], "what", "value"),
    "na": lambda f, users: f.na.fill(0).na.drop("all").na.replace({5: 50}),
    "repartition": lambda f, users: f.repartition(3, "user"),
    "replace": lambda f, users: f.replace({1: 10, 2: 20}, subset=["user"]),
    "selectExpr": lambda f, users: f.selectExpr("user + 1 AS next", "upper('a') AS a"),
    "subquery": lambda f, users: f.where(F.col("amount") <= F.lit(1)).withColumn("n", F.expr("(SELECT max(1))")),
    "to": lambda f, users: f.to(WIDER),
    "toDF": lambda f, users: f.toDF("a", "b.b", "a"),
    "twice": lambda f, users: f.select("user", "user", F.col("amount").alias("")),
    "union": lambda f, users: f.select("user").union(f.select("amount")),
    "withColumn": lambda f, users: f.withColumn("day", F.date_trunc("day", f.ts)),
    "withColumnRenamed": lambda f, users: f.withColumnRenamed("user", "who"),
    "withMetadata": lambda f, users: f.withMetadata("user", {"unit": "none"}),
}
"""Stateless calls behind an operator."""


def behind(clicks: DataFrame) -> DataFrame:
    """The result of an operator, with the columns of the stream."""
    return clicks.groupBy("user").agg(F.max("ts").alias("ts"), F.sum("amount").alias("amount"))
