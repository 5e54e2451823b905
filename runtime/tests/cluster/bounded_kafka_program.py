"""Counts the Kafka records of now in epochs of one second, and prints what they took. ``program MASTER CHECKPOINT SERVERS JARS``."""

from __future__ import annotations

import json
import os
import sys
import time

from kafka_program import CONF
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import binshift
from binshift.spark import conf


def main(master: str, checkpoint: str, servers: str, jars: str) -> None:
    """Until nothing is left; one line of JSON: rows, rows behind and bound by epoch, and the counts by key."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("bounded").config("spark.jars", jars)
    for key, value in (conf.required() | CONF | {"spark.executor.cores": "3"}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "in")
    rows = source.option("startingOffsets", "earliest").load().select(F.col("key").cast("string"))
    counted: dict[str, int] = {}

    def keep(frame: DataFrame, _: int) -> None:
        counted.update({row["key"]: row["count"] for row in frame.collect()})

    writer = binshift.writeStream(rows.groupBy("key").count(), bins=32, workers=2, max_epoch="1s")
    query = writer.outputMode("update").option("checkpointLocation", checkpoint).foreachBatch(keep).start()
    query.processAllAvailable()
    load = query.load(time.time())
    epochs = [(each.total, each.behind, each.bound) for each in query.input.loads]
    sys.stdout.write(json.dumps({"epochs": epochs, "bound": load.bound, "counted": counted}) + "\n")
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
