"""A user's program: counts Kafka records by key into another topic, while bins move. ``program MASTER CHECKPOINT SERVERS JARS``."""

from __future__ import annotations

import itertools
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import binshift
from binshift.spark import conf

ROWS_AN_EPOCH = 500
EPOCHS_A_MOVE = 3
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "2",
    "spark.executor.memory": "600m",
}


def main(master: str, checkpoint: str, servers: str, jars: str) -> None:
    """Run until killed; every few epochs the query is rescaled from 2 workers to 3, or back."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("words").config("spark.jars", jars)
    for key, value in (conf.required() | CONF).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "in")
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ROWS_AN_EPOCH)
    rows = source.load().select(F.col("key").cast("string"), F.col("value").cast("string").cast("long").alias("n"))
    counts = rows.groupBy("key").agg(F.count("*").alias("c"), F.sum("n").alias("s"))
    sent = counts.select("key", F.concat_ws(",", "c", "s").alias("value"))
    writer = binshift.writeStream(sent, bins=32, workers=2).outputMode("update").format("kafka").option("topic", "out")
    writer = writer.option("kafka.bootstrap.servers", servers).option("checkpointLocation", checkpoint)
    query = writer.start()
    for workers in itertools.cycle((3, 2)):
        query.await_epoch(query.epoch + EPOCHS_A_MOVE, 600)
        query.rescale(workers).wait(600)
        sys.stdout.write(f"settled on {workers} workers\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
