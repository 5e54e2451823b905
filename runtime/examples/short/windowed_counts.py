"""Clicks per page in windows of a minute; each window is written once, when no more rows of it can come.

    binshift run windowed_counts.py -- IN OUT CHECKPOINT

IN has JSON lines: {"ts": "2024-03-01T12:00:03Z", "page": "home", "user": "u1"}. OUT gets parquet files.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery


def start(source: str, target: str, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spark = SparkSession.builder.getOrCreate()
    clicks = spark.readStream.schema("ts timestamp, page string, user string").json(source)
    counts = (
        clicks.withWatermark("ts", "10 seconds")
        .groupBy(F.window("ts", "1 minute"), "page")
        .agg(F.count("*").alias("clicks"), F.approx_count_distinct("user").alias("users"))
        .select("window.start", "page", "clicks", "users")
    )
    writer = counts.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
    return writer.format("parquet").start(target)


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
