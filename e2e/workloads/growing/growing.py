"""A program with everything that alerts are for: event time at half the speed of the clock, and state that grows, then only the log.

The first ``KEYS`` rows have a key each; after them all keys come repeatedly, so that the log grows and the state does not.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ROWS_PER_SECOND = 1000
KEYS = 20_000


def main(output: str, start_seconds: str) -> None:
    """Run forever; event time goes by from ``start_seconds`` on, in seconds since 1970, at half speed."""
    spark = SparkSession.builder.appName("growing").getOrCreate()
    rows = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_SECOND).load()
    slow = F.expr(f"timestamp_micros({start_seconds}000000 + (unix_micros(timestamp) - {start_seconds}000000) div 2)")
    timed = rows.select(slow.alias("at"), (F.col("value") % KEYS).alias("key"))
    grouped = timed.withWatermark("at", "1 second").groupBy(F.window("at", "1 day"), "key")
    counts = grouped.agg(F.count("*").alias("rows"))
    writer = counts.select("key", "rows").writeStream.outputMode("update").format("parquet").option("path", output)
    writer.option("checkpointLocation", os.environ["BINSHIFT_CHECKPOINT"]).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
