"""Watermarks, batch by batch as in Spark: the same program over the same files, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from engines import TIMES, Sink, having, ours, put, run, source, sparks, taken, uncommit, watermarks
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.spark.jobs.batches import NO_DATA_CONF

pytestmark = pytest.mark.cluster

EARLY = ([-7200, -3700], [-3650, -5], [0, 5, -1], [30, -30], [3600])
"""Around 1970: the seconds of each batch."""


def windows(frame: DataFrame) -> DataFrame:
    """Windows of ten seconds, flat."""
    grouped = frame.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"), F.max("ts").alias("latest"))
    return grouped.select("window.start", "window.end", "k", "n", "latest")


def filtered(frame: DataFrame) -> DataFrame:
    """Drops the events that move the watermark most."""
    return frame.where(F.second("ts") % 30 != 0)


def joined(frame: DataFrame) -> DataFrame:
    """Keeps rows with a match in a static frame: all but each file's last row."""
    return frame.join(frame.sparkSession.range(2).withColumnRenamed("id", "k"), "k")


def exploded(frame: DataFrame) -> DataFrame:
    """Two rows for each row with items, and none for the others."""
    return frame.select("ts", "k", F.explode("items").alias("item"))


@pytest.mark.parametrize("mode", ["update", "append"])
@pytest.mark.parametrize("between", [filtered, joined, exploded])
def test_what_stands_behind_the_watermark_does_not_change_it(
    between: Callable[[DataFrame], DataFrame], mode: str, session: SparkSession, tmp_path: Path
) -> None:
    """Spark follows the event time at `withWatermark`: the same rows are late, and windows end in the same batches."""
    folder = tmp_path / "in"
    for batch, seconds in enumerate(TIMES):
        put(folder, batch, seconds)

    def query(frame: DataFrame) -> DataFrame:
        return windows(between(frame.withWatermark("ts", "10 seconds")))

    found = taken(ours(query(source(session, folder))), tmp_path / "ours", mode)
    assert found == taken(sparks(query(source(session, folder))), tmp_path / "sparks", mode)
    assert watermarks(tmp_path / "ours") == watermarks(tmp_path / "sparks")
    assert sum(map(len, found.values())) > len(TIMES) / 2


@pytest.mark.parametrize("policy", ["min", "max"])
def test_united_streams_have_one_watermark_by_spark_s_policy(
    policy: str, session: SparkSession, tmp_path: Path
) -> None:
    """Each stream has its own watermark; the lowest or highest of them is the query's."""
    for batch, seconds in enumerate(TIMES):
        put(tmp_path / "in", batch, seconds)
        put(tmp_path / "slower", batch, [at / 2 for at in seconds])

    def query(frame: DataFrame) -> DataFrame:
        slower = source(session, tmp_path / "slower").withWatermark("ts", "20 seconds")
        return windows(frame.withWatermark("ts", "5 seconds").union(slower))

    with having(session, {"spark.sql.streaming.multipleWatermarkPolicy": policy}):
        found = taken(ours(query(source(session, tmp_path / "in"))), tmp_path / "ours")
        assert found == taken(sparks(query(source(session, tmp_path / "in"))), tmp_path / "sparks")
    assert watermarks(tmp_path / "ours") == watermarks(tmp_path / "sparks")


def test_event_times_before_1970_are_late(session: SparkSession, tmp_path: Path) -> None:
    """Spark's watermark begins at 0: groups that end then or earlier are late from the first batch on."""
    folder = tmp_path / "in"
    for batch, seconds in enumerate(EARLY):
        put(folder, batch, seconds, datetime(1970, 1, 1, tzinfo=UTC))
    both = [
        taken(engine(windows(source(session, folder).withWatermark("ts", "10 seconds"))), tmp_path / engine.__name__)
        for engine in (ours, sparks)
    ]
    assert both[0] == both[1]
    assert not both[0][0]
    assert any(both[0].values())


@pytest.mark.parametrize("mode", ["update", "append"])
def test_restarts_and_replays_keep_the_watermark(mode: str, session: SparkSession, tmp_path: Path) -> None:
    """A query that ends inside a batch, before its record or after it, continues like one that never ended."""
    folder, checkpoint, kept, wanted = tmp_path / "in", tmp_path / "ours", Sink(), Sink()

    def query() -> DataFrame:
        return windows(filtered(source(session, folder).withWatermark("ts", "10 seconds")))

    def breaking(frame: DataFrame, epoch: int) -> None:
        kept(frame, epoch)
        raise RuntimeError("the test breaks the batch")

    for batch in range(0, len(TIMES), 2):
        for number in (batch, batch + 1):
            put(folder, number, TIMES[number])
        if batch % 4:  # the driver ends before the record of a batch: it runs again
            with pytest.raises(Exception, match="the test breaks the batch"):
                run(ours(query()), checkpoint, breaking, mode)
        run(ours(query()), checkpoint, kept, mode)
        run(sparks(query()), tmp_path / "sparks", wanted, mode)
        if batch in (2, 4):  # the driver died after the record, before Spark's commit: a replay
            uncommit(checkpoint, max(kept.epochs))
            run(ours(query()), checkpoint, kept, mode)
    assert len(kept.runs) == len(kept.epochs) + 4
    assert kept.epochs == wanted.epochs
    assert watermarks(checkpoint) == watermarks(tmp_path / "sparks")


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_batches_without_data_are_run_as_the_conf_has_it(enabled: str, session: SparkSession, tmp_path: Path) -> None:
    """After the last rows, groups end in one more batch, or wait for more rows; moves on an idle stream continue."""
    folder = tmp_path / "in"
    for batch, seconds in enumerate(TIMES[:3]):
        put(folder, batch, seconds)

    def query(frame: DataFrame) -> DataFrame:
        return windows(frame.withWatermark("ts", "10 seconds"))

    with having(session, {NO_DATA_CONF: enabled}):
        found = taken(ours(query(source(session, folder))), tmp_path / "ours", "append")
        assert found == taken(sparks(query(source(session, folder))), tmp_path / "sparks", "append")
        sink, live = Sink(), ours(query(source(session, folder))).outputMode("append")
        running: Any = live.option("checkpointLocation", str(tmp_path / "live")).foreachBatch(sink).start()
        try:
            running.processAllAvailable()
            assert running.rescale(3).wait(120).value == "settled"
        finally:
            running.stop()
        assert {row for rows in sink.epochs.values() for row in rows} == {
            row for rows in found.values() for row in rows
        }
