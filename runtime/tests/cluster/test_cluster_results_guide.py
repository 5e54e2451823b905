"""The guide for results, on running queries: its own code takes over every result exactly once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from counted import NAMES, ROWS, Reference, aggregated, counting, stream
from guide_code import functions
from process_tree import kill_executor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import binshift
from binshift.local import LocalCluster
from binshift.model import Worker

pytestmark = pytest.mark.cluster

EPOCHS = 6


def newest(last: int) -> dict[Any, Any]:
    """By key: its newest values after this epoch."""
    reference, found = Reference(), dict[Any, Any]()
    for epoch in range(last + 1):
        found |= reference.epoch(epoch)
    return found


def test_files(cluster: LocalCluster, session: SparkSession, tmp_path: Path) -> None:
    """Executors are killed while the query writes parquet; the newest row of each key is correct."""
    columns, path = aggregated(stream(session)).columns, str(tmp_path / "out")
    writer = counting(session, bins=32, workers=2).format("parquet")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(path)
    for worker in (0, 1):
        query.await_epoch(query.epoch + 2, 120)
        kill_executor(cluster, Worker(worker))
    query.await_epoch(query.epoch + 2, 120)
    query.stop()
    rows = functions("results.md")["newest"](session, path, columns[:2]).select(*columns).collect()
    assert {tuple(row[:2]): tuple(row[2:]) for row in rows} == newest(query.epoch)


def test_a_database(session: SparkSession, tmp_path: Path) -> None:
    """If the driver dies after the transaction and before the record, the epoch is repeated and skipped."""
    upsert, calls = functions("results.md")["upsert"], list[int]()

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "results.db")

    def take(batch: DataFrame, epoch: int) -> None:
        calls.append(epoch)
        upsert(connect, batch, epoch)
        if epoch == 3 and calls.count(3) == 1:
            raise KeyError("the driver has died")

    def started() -> Any:
        rows = stream(session).withColumn("key", F.col("value") % NAMES)
        counts = rows.groupBy("key").agg(F.count("*").alias("rows"))
        writer = binshift.writeStream(counts, bins=32, workers=2).outputMode("update").foreachBatch(take)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    with pytest.raises(Exception, match="the driver has died"):
        started().awaitTermination(120)
    query = started()
    query.await_epoch(EPOCHS, 120)
    query.stop()
    assert calls.count(3) == 2
    with connect() as database:
        found = dict(database.execute("SELECT key, rows FROM counts").fetchall())
        epochs = [epoch for (epoch,) in database.execute("SELECT epoch FROM epochs ORDER BY epoch")]
    assert epochs == list(range(query.epoch + 1))
    assert found == Counter(str(value % NAMES) for value in range(ROWS * len(epochs)))
