"""Visits of users: a visit ends when its user has not clicked for five minutes.

    binshift run sessions.py -- IN OUT CHECKPOINT

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
    visits = (
        clicks.withWatermark("ts", "10 seconds")
        .groupBy(F.session_window("ts", "5 minutes").alias("visit"), "user")
        .agg(F.count("*").alias("clicks"), F.min_by("page", "ts").alias("first_page"))
        .select("user", "visit.start", "visit.end", "clicks", "first_page")
    )
    writer = visits.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
    return writer.format("parquet").start(target)


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
