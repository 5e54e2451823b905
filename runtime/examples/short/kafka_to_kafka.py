"""Clicks by page from one topic to another; each record has its epoch in the header binshift-epoch.

    binshift run kafka_to_kafka.py -- localhost:9092 clicks counts CHECKPOINT

The value of an input record is its page. A consumer that keeps, by key, the record with the highest epoch has exactly the counts.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery


def start(servers: str, source: str, target: str, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spark = SparkSession.builder.getOrCreate()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    clicks = reader.option("startingOffsets", "earliest").load().select(F.col("value").cast("string").alias("key"))
    counts = clicks.groupBy("key").agg(F.count("*").cast("string").alias("value"))
    writer = counts.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    return writer.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", target).start()


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
