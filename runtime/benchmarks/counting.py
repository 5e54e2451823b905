"""The compared queries: a count by key, in Spark and in binshift. All write to the noop sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measuring import Bench
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import binshift
from binshift.spark.session.checkpoint_files import FILE_MANAGER, LOCAL_FILES
from binshift.spark.session.jvm import install

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def spark_count(running: Bench, stream: DataFrame, partitions: int = 2, checkpoint: str | None = None) -> Any:
    """Spark's own stateful count: RocksDB with a changelog, its fastest durable state."""
    conf = running.spark.conf
    conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    conf.set("spark.sql.shuffle.partitions", str(partitions))
    writer = stream.groupBy("k").agg(F.count("*").alias("n")).writeStream.format("noop").outputMode("update")
    try:  # from its start on, the query has its own session
        return writer.option("checkpointLocation", checkpoint or running.checkpoint()).start()
    finally:
        conf.set("spark.sql.shuffle.partitions", "2")


def quick_spark_count(running: Bench, stream: DataFrame) -> Any:
    """The same with binshift's writer for Spark's checkpoint files on local disks, which any query could use."""
    install(running.spark)
    running.spark.conf.set(FILE_MANAGER, LOCAL_FILES)
    try:
        return spark_count(running, stream)
    finally:
        running.spark.conf.unset(FILE_MANAGER)


def binshift_count(running: Bench, stream: DataFrame, bins: int, folder: Path | None = None, **settings: Any) -> Any:
    """The same with bins, on two workers."""
    frame = stream.groupBy("k").agg(F.count("*").alias("n"))
    writer = binshift.writeStream(frame, bins=bins, workers=2, **settings).format("noop").outputMode("update")
    return writer.option("checkpointLocation", running.checkpoint(folder)).start()
