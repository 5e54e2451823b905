"""Events without the repetitions that their senders cause: each id once, if it is repeated within an hour.

    binshift run deduplicate.py -- IN OUT CHECKPOINT

IN has JSON lines: {"ts": "2024-03-01T12:00:03Z", "id": "e1", "body": "..."}. OUT gets parquet files.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery


def start(source: str, target: str, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spark = SparkSession.builder.getOrCreate()
    events = spark.readStream.schema("ts timestamp, id string, body string").json(source)
    once = events.withWatermark("ts", "1 hour").dropDuplicatesWithinWatermark(["id"])
    writer = once.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
    return writer.format("parquet").start(target)


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
