"""Each order with the clicks of its user in the ten minutes before; orders without a click come with nulls.

    binshift run join.py -- IN OUT CHECKPOINT

IN/clicks has JSON lines {"ts": "2024-03-01T12:00:03Z", "page": "home", "user": "u1"}, IN/orders has lines
{"at": "2024-03-01T12:04:00Z", "buyer": "u1", "amount": 12.5}. OUT gets parquet files.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery


def start(source: str, target: str, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spark = SparkSession.builder.getOrCreate()
    clicks = spark.readStream.schema("ts timestamp, page string, user string").json(f"{source}/clicks")
    orders = spark.readStream.schema("at timestamp, buyer string, amount double").json(f"{source}/orders")
    joined = orders.withWatermark("at", "10 seconds").join(
        clicks.withWatermark("ts", "10 seconds"),
        F.expr("buyer = user AND ts BETWEEN at - INTERVAL 10 MINUTES AND at"),
        "left_outer",
    )
    writer = joined.select("buyer", "at", "amount", "page").writeStream.outputMode("append")
    return writer.option("checkpointLocation", checkpoint).format("parquet").start(target)


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
