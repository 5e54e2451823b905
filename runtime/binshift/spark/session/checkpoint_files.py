"""The class that writes Spark's files into a checkpoint: `LocalCheckpointFiles`, unless the user chose one or the checkpoint is on S3.

Spark has the class from the conf of the session: for offsets and commits when the stream is made, and for what sources keep when the
stream's own thread makes the sources. The conf is set until both have happened.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from binshift.spark.session.jvm import Jvm

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILES = "dev.binshift.LocalCheckpointFiles"


def start(java: Jvm, spark: SparkSession, writer: DataStreamWriter, location: str, source: str) -> Any:
    """Start a stream whose last source is the nudge source of that name; returns PySpark's query once all sources are made."""
    with java.starting:
        if location.startswith("s3") or spark.conf.get(FILE_MANAGER, None) is not None:
            return writer.start()
        spark.conf.set(FILE_MANAGER, LOCAL_FILES)
        try:
            query = writer.start()
            java.bridge.awaitSource(source, query._jsq)
        finally:
            spark.conf.unset(FILE_MANAGER)
        return query
