r"""Counts by page with checkpoint and results on S3; AWS_ENDPOINT_URL has the address of another server than AWS's.

    AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... AWS_REGION=eu-central-1 \
        binshift run on_s3.py -- IN s3a://bucket/results s3://bucket/checkpoint

IN has JSON lines: {"page": "home"}. Spark reads and writes s3a:// itself, with its jars for S3.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery


def start(source: str, target: str, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spark = SparkSession.builder.getOrCreate()
    counts = spark.readStream.schema("page string").json(source).groupBy("page").count()
    writer = counts.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    return writer.format("parquet").start(target)


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
