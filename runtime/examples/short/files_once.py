"""Totals by account as parquet, exactly once: an epoch that is repeated after a failure replaces its own files.

    binshift run files_once.py -- IN OUT CHECKPOINT

IN has JSON lines: {"account": "a1", "amount": 12.5}. OUT gets the changed totals of each epoch; `newest` reads the table.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery


def start(source: str, target: str, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spark = SparkSession.builder.getOrCreate()
    payments = spark.readStream.schema("account string, amount double").json(source)
    totals = payments.groupBy("account").agg(F.count("*").alias("payments"), F.sum("amount").alias("total"))
    writer = totals.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    return writer.format("parquet").start(target)


def newest(target: str) -> DataFrame:
    """The totals so far."""
    rows = SparkSession.builder.getOrCreate().read.parquet(target)
    latest = rows.groupBy("account").agg(F.max_by(F.struct("payments", "total"), "epoch").alias("latest"))
    return latest.select("account", "latest.*")


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
