"""Typical user programs on a real cluster: append mode, vectorised state, idle streams, files, restarts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from counted import Outputs, Reference, counting, stream
from process_tree import kill_executor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from totals import Kept, answers, summed, totalling

import binshift
from binshift.errors import IncompatibleState, UserFunctionFailed
from binshift.local import LocalCluster
from binshift.model import Worker
from binshift.spark.session.executors import ExecutorView
from binshift.spark.session.jvm import install

pytestmark = pytest.mark.cluster


def test_append_mode_emits_what_spark_emits(session: SparkSession, tmp_path: Path) -> None:
    """With a watermark, each window is emitted once, when it is closed, with Spark's own values."""
    source = session.readStream.format("rate-micro-batch")
    source = source.option("rowsPerBatch", 50).option("numPartitions", 2).option("advanceMillisPerBatch", 4000)
    events = source.load().withColumn("k", F.col("value") % 5)

    def windows(frame: DataFrame) -> DataFrame:
        grouped = frame.withWatermark("timestamp", "10 seconds").groupBy(F.window("timestamp", "20 seconds"), "k")
        return grouped.agg(F.count("*").alias("n"), F.avg("value").alias("mean")).select("window.end", "k", "n", "mean")

    found: dict[str, set[Any]] = {}
    writers: dict[str, Any] = {
        "binshift": binshift.writeStream(windows(events), bins=16, workers=2),
        "spark": windows(events).writeStream,
    }
    for name, made in writers.items():
        rows: set[Any] = set()
        found[name] = rows
        writer = made.outputMode("append").option("checkpointLocation", str(tmp_path / name))
        query = writer.foreachBatch(lambda df, _, rows=rows: rows.update(map(tuple, df.collect()))).start()
        _await_batches(query, 22)
        query.stop()
    both = found["binshift"] & found["spark"]
    assert len(both) > 10
    latest = sorted({row[0] for row in both})[-2]
    early = {name: {row for row in rows if row[0] <= latest} for name, rows in found.items()}
    assert early["binshift"] == early["spark"]


def test_vectorised_state_counts_right(session: SparkSession, tmp_path: Path) -> None:
    """A vectorised function sees every row of a key once, with the state that it returned last, while bins move."""
    kept = Kept()
    writer = totalling(session, summed).option("checkpointLocation", str(tmp_path))
    query = writer.foreachBatch(kept).start()
    query.await_epoch(3, 120)
    query.rescale(3, batch_size=4).wait(120)
    query.await_epoch(query.epoch + 2)
    last = query.epoch
    query.stop()
    for epoch, wanted in enumerate(answers(last + 1)):
        assert kept.epochs[epoch] == wanted, epoch


def test_an_idle_stream_migrates(session: SparkSession, tmp_path: Path) -> None:
    """Without further input, flips happen in requested epochs, and the state is still correct afterwards."""
    folder = tmp_path / "in"
    session.range(500).selectExpr("id % 50 as k", "id as v").write.parquet(str(folder))
    frame = session.readStream.schema("k long, v long").parquet(str(folder)).groupBy("k").agg(F.count("*"), F.sum("v"))
    rows: dict[int, Any] = {}

    def keep(df: Any, _: int) -> None:
        rows.update({row[0]: (row[1], row[2]) for row in df.collect()})

    writer = binshift.writeStream(frame, bins=32, workers=2).outputMode("update").foreachBatch(keep)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.await_epoch(0, 120)
    assert query.rescale(4, batch_size=4).wait(120).value == "settled"
    assert query.workers == (0, 1, 2, 3)
    session.range(500, 600).selectExpr("id % 50 as k", "id as v").write.mode("append").parquet(str(folder))
    before = query.epoch
    query.await_epoch(before + 1, 120)
    query.processAllAvailable()
    query.stop()
    assert rows == {k: (12, sum(v for v in range(600) if v % 50 == k)) for k in range(50)}


def test_file_sink_replays_after_a_kill(cluster: LocalCluster, session: SparkSession, tmp_path: Path) -> None:
    """Each epoch's directory holds exactly its rows, although executors die and epochs run again."""
    out = tmp_path / "out"
    writer = counting(session, bins=32, workers=2).format("parquet").option("path", str(out))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    for worker in (0, 1):
        query.await_epoch(query.epoch + 2, 120)
        kill_executor(cluster, Worker(worker))
    query.await_epoch(query.epoch + 2, 120)
    last = query.epoch
    query.abort()
    outputs = Outputs()
    for epoch in range(last + 1):
        outputs(session.read.parquet(str(out / f"epoch={epoch}")), epoch)
    outputs.check(last, "file sink")


def test_a_changed_aggregate_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Another aggregate on an old checkpoint is rejected before anything is written, and the difference is named."""
    query = counting(session, bins=32, workers=2).format("noop")
    started = query.option("checkpointLocation", str(tmp_path)).start()
    started.await_epoch(1, 120)
    started.stop()
    frame = stream(session).groupBy("name").agg(F.max("value"))
    other = binshift.writeStream(frame, bins=32, workers=2).outputMode("update").format("noop")
    files = sorted(str(p) for p in tmp_path.rglob("*"))
    with pytest.raises(IncompatibleState, match="max"):
        other.option("checkpointLocation", str(tmp_path)).start()
    assert sorted(str(p) for p in tmp_path.rglob("*")) == files


def _await_batches(query: Any, batches: int) -> None:
    while len(query.recentProgress) < batches:
        assert query.isActive, query.exception()
        query.awaitTermination(0.05)


def test_available_now_ends_by_itself(session: SparkSession, tmp_path: Path) -> None:
    """With availableNow a query processes the available files and ends; restarted, it continues from its state."""
    folder, rows = tmp_path / "in", {}

    def keep(df: Any, _: int) -> None:
        rows.update({row[0]: row[1] for row in df.collect()})

    for turn in range(2):
        session.range(turn * 100, turn * 100 + 100).selectExpr("id % 10 as k").write.mode("append").parquet(str(folder))
        frame = session.readStream.schema("k long").parquet(str(folder)).groupBy("k").count()
        writer = binshift.writeStream(frame, bins=16, workers=2).outputMode("update").foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        assert writer.start().awaitTermination(120)
        assert rows == dict.fromkeys(range(10), 10 * (turn + 1))


def test_a_failing_function_is_told_in_a_few_lines(session: SparkSession, tmp_path: Path) -> None:
    """A user's error ends the query with the user's own traceback; after the fix it continues."""

    def broken(_: Any, epoch: int) -> None:
        if epoch == 2:
            raise ValueError("the answer is not 42")

    writer = counting(session, bins=16, workers=2).option("checkpointLocation", str(tmp_path))
    query = writer.foreachBatch(broken).start()
    with pytest.raises(UserFunctionFailed) as caught:
        query.awaitTermination()
    assert "the answer is not 42" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 20
    outputs = Outputs()
    fixed = counting(session, bins=16, workers=2).foreachBatch(outputs)
    again = fixed.option("checkpointLocation", str(tmp_path)).start()
    again.await_epoch(3, 120)
    again.stop()
    reference = Reference()
    wanted = [reference.epoch(epoch) for epoch in range(4)]
    assert outputs.epochs[2] == wanted[2]
    assert outputs.epochs[3] == wanted[3]


def test_stopping_does_not_wait_for_executors_that_are_gone(
    cluster: LocalCluster, session: SparkSession, tmp_path: Path
) -> None:
    """An epoch that waits for its workers is abandoned when the query stops; it is repeated after the next start."""
    slots = [Worker(slot) for slot in range(4)]
    writer = (
        counting(session, bins=8, workers=2, lost_worker_timeout_seconds=3600.0)
        .format("noop")
        .option("checkpointLocation", str(tmp_path))
    )
    query = writer.start()
    try:
        query.await_epoch(2, 120)
        for slot in slots:
            cluster.stop_worker(slot)
        query.stop()
        assert not query.isActive
    finally:
        for slot in slots:
            cluster.start_worker(slot)
        view, deadline = ExecutorView(session.sparkContext, install(session)), time.monotonic() + 120
        while view.alive().keys() != set(slots):
            assert time.monotonic() < deadline, "the workers do not come back"
            time.sleep(0.1)
    query = writer.start()
    query.await_epoch(4, 120)
    query.stop()
    assert query._query.exception() is None  # Spark, too, treats it as a normal stop
