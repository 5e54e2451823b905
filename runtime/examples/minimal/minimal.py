"""Counts by key from Spark's rate source: a minimal stateful program, in plain PySpark.

    python minimal.py OUTPUT [--rows-per-second 1000] [--keys 1000]

Every epoch writes the new counts of its keys to OUTPUT/epoch=N/, as parquet. It is started by `binshift run` or on Kubernetes;
the environment variable BINSHIFT_CHECKPOINT has the checkpoint.
"""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    """Run until stopped."""
    parser = argparse.ArgumentParser(description="counts by key")
    parser.add_argument("output", help="folder for the results")
    parser.add_argument("--rows-per-second", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=1000)
    given = parser.parse_args()

    spark = SparkSession.builder.appName("minimal").getOrCreate()
    rows = spark.readStream.format("rate").option("rowsPerSecond", given.rows_per_second).load()
    counts = (
        rows.withColumn("key", F.col("value") % given.keys)
        .groupBy("key")
        .agg(F.count("*").alias("rows"), F.sum("value").alias("total"), F.max("value").alias("newest"))
    )
    query = (
        counts.writeStream.queryName("minimal")
        .format("parquet")
        .option("path", given.output)
        .option("checkpointLocation", os.environ["BINSHIFT_CHECKPOINT"])
        .outputMode("update")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
