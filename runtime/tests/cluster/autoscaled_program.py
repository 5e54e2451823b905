"""Counts keys in files, slowly: each row takes a fixed time of a core."""

import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SECONDS_PER_ROW = 20e-6


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, after some work."""
    for batch in batches:
        until = time.process_time() + SECONDS_PER_ROW * batch.num_rows
        while time.process_time() < until:
            pass
        yield batch


def main(folder: str, checkpoint: str) -> None:
    """Count until stopped."""
    spark = SparkSession.builder.getOrCreate()
    rows = spark.readStream.schema("id long, key long").parquet(folder)
    slow = rows.mapInArrow(slowly, rows.schema)
    counts = slow.select((F.col("key") % 100).alias("key")).groupBy("key").count()
    query = counts.writeStream.outputMode("update").option("checkpointLocation", checkpoint).format("noop").start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
