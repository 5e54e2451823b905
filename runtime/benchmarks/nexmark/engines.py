"""How a query is started: by Spark itself, or by binshift. The only module of the suite that starts queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

import binshift
from binshift import cds
from binshift.java import QUICK_TO_START
from binshift.spark.session.checkpoint_files import FILE_MANAGER, LOCAL_FILES
from nexmark.query import Query

RUNTIME = Path(__file__).resolve().parents[2]
BENCHMARKS = Path(__file__).resolve().parents[1]
CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.PYTHONPATH": f"{BENCHMARKS}:{RUNTIME}",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Where two parts of a plan share an exchange, Spark gives the operators above the second one the watermark 0: Q5 would stay empty.
    "spark.sql.exchange.reuse": "false",
}
"""Of every session: times are UTC's, executors import the processors, and Spark keeps its state in its fastest durable store."""

SHORT = {**CONF, **cds.spark_conf(f"{QUICK_TO_START} -XX:ReservedCodeCacheSize=256m")}
"""Of sessions with many short queries, whose code runs too seldom for an optimising compiler.

Without that compiler a JVM keeps 48 MiB of code, which a dozen queries fill: it then compiles nothing any more.
"""

STATE_IN_MEMORY = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
}
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
ONE_TASK = {"spark.sql.shuffle.partitions": "1"}
QUICK_FILES = {FILE_MANAGER: LOCAL_FILES}
"""Spark's own class starts processes for each file of a checkpoint on a local disk."""


def for_small_batches(query: Query) -> dict[str, str]:
    """Conf with which Spark itself takes less time for small batches: it compiles much of a plan again for each of them.

    The store in memory takes less time for little state, and cannot be used for processors.
    """
    return INTERPRETED | ONE_TASK | QUICK_FILES | ({} if query.needs_processor else STATE_IN_MEMORY)


def writer(frame: DataFrame, query: Query, checkpoint: str, **settings: Any) -> DataStreamWriter:
    """binshift's writer with these settings; Spark's own without settings, and for a query without state."""
    if settings and query.state:
        made: DataStreamWriter = binshift.writeStream(frame, **settings)
    else:
        made = DataStreamWriter(frame)
    return made.outputMode(query.mode).option("checkpointLocation", checkpoint)
