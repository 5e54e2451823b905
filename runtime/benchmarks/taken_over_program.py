"""The program that `bench_takeover` runs in its drivers: ``taken_over_program KEYS RATE``. It counts the rows of each key."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    """Run until the query ends."""
    keys, rate = map(int, sys.argv[1:])
    spark = SparkSession.builder.getOrCreate()
    rows = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
    counted = rows.groupBy((F.col("value") * 2_654_435_761 % keys).alias("k")).agg(F.count("*").alias("n"))
    query = counted.writeStream.format("noop").outputMode("update").option("binshift.bins", 1024).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
