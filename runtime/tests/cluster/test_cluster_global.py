"""Aggregations without keys, against Spark's own, epoch by epoch, while the one group moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import binshift
from binshift.model import Bin, Worker

pytestmark = pytest.mark.cluster

ROWS = 50
EPOCHS = 6


def _aggregates() -> list[Column]:
    value = F.col("value")
    plain = [F.count("*").alias("n"), F.sum(value), F.min(value), F.max(value), F.avg(value), F.stddev(value)]
    return [*plain, F.count_if(value % 2 == 0), F.size(F.collect_set(value % 7))]


def _outputs(writer: DataStreamWriter, where: Path, *, move: bool) -> dict[int, list[Any]]:
    """The rows of each epoch, of at least `EPOCHS` epochs."""
    rows: dict[int, list[Any]] = {}

    def keep(df: Any, epoch: int) -> None:
        rows[epoch] = [tuple(row) for row in df.collect()]

    writer = writer.outputMode("update").option("checkpointLocation", str(where)).foreachBatch(keep)
    query: Any = writer.start()
    try:
        if move:
            query.await_epoch(2, 120)
            assert query.move({Bin(0): Worker(1)}).wait(120).value == "settled"
            query.await_epoch(query.epoch + 2, 120)
        while len(rows) < EPOCHS:
            assert query.isActive, query.exception()
            query.awaitTermination(0.05)
    finally:
        query.stop()
    return rows


def _rounded(rows: list[Any]) -> list[Any]:
    """Sums of floats depend on their order in the last digits."""
    return [[round(value, 6) if isinstance(value, float) else value for value in row] for row in rows]


def test_one_group_emits_what_spark_emits(session: SparkSession, tmp_path: Path) -> None:
    """Every epoch has one row with Spark's values, including epochs without rows, at the start and in between."""
    source = (
        session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2).load()
    )
    epoch = F.floor(F.col("value") / ROWS)
    some = source.where((epoch != 0) & (epoch != 3)).select("value")
    frame = some.agg(*_aggregates())
    found = _outputs(binshift.writeStream(frame, bins=8, workers=2), tmp_path / "binshift", move=True)
    wanted = _outputs(frame.writeStream, tmp_path / "spark", move=False)
    assert {each: _rounded(found[each]) for each in range(EPOCHS)} == {
        each: _rounded(wanted[each]) for each in range(EPOCHS)
    }
    assert all(len(rows) == 1 for rows in found.values())
    assert wanted[0][0][:2] == (0, None)
    assert wanted[3] == wanted[2]
