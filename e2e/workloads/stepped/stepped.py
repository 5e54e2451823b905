"""A program that reads files and takes a while for each row, without a CPU: a node of two cores can carry several busy executors."""

from __future__ import annotations

import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(folder: str, output: str, milliseconds: str) -> None:
    """Count the rows of each input file, forever; a row takes so many milliseconds."""
    spark = SparkSession.builder.appName("stepped").getOrCreate()

    @F.udf("long")
    def slow(file: int) -> int:
        time.sleep(int(milliseconds) / 1000)
        return file

    os.makedirs(folder, exist_ok=True)
    rows = spark.readStream.schema("file long").parquet(folder)
    counts = rows.select(slow("file").alias("file")).groupBy("file").agg(F.count("*").alias("rows"))
    writer = counts.writeStream.outputMode("update").format("parquet").option("path", output)
    writer.option("checkpointLocation", os.environ["BINSHIFT_CHECKPOINT"]).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
