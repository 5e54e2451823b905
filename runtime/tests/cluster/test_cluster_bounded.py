"""Bounded epochs: a backlog is worked off in epochs of a given length, the first one included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import binshift

pytestmark = pytest.mark.cluster

FILES, ROWS_A_FILE = 60, 20_000
MAX_EPOCH = 0.5


def backlog(session: SparkSession, folder: Path) -> DataFrame:
    """A stream of files that are all there when it starts."""
    rows = session.range(0, FILES * ROWS_A_FILE, 1, FILES).select("id", (F.col("id") % 5000).alias("key"))
    rows.write.parquet(str(folder))
    return session.readStream.schema("id long, key long").parquet(str(folder))


def counted(
    frame: DataFrame, folder: Path, totals: dict[int, int], trigger: dict[str, Any] | None = None, **settings: Any
) -> Any:
    """Its rows by key; a count that is returned later replaces the one before."""

    def keep(rows: DataFrame, _: int) -> None:
        totals.update({row["key"]: row["count"] for row in rows.collect()})

    writer = binshift.writeStream(frame.groupBy("key").count(), bins=64, workers=2, **settings)
    if trigger:
        writer = writer.trigger(**trigger)
    return (
        writer.outputMode("update").option("checkpointLocation", str(folder / "checkpoint")).foreachBatch(keep).start()
    )


def test_a_backlog_is_worked_off_in_short_epochs(session: SparkSession, tmp_path: Path) -> None:
    """No epoch takes everything, they become as long as allowed, and every row is counted once."""
    totals: dict[int, int] = {}
    query = counted(backlog(session, tmp_path / "in"), tmp_path, totals, max_epoch=MAX_EPOCH)
    query.processAllAvailable()
    meter, rows = query.input, [each.total for each in query.input.loads]
    query.stop()
    assert totals == dict.fromkeys(range(5000), FILES * ROWS_A_FILE // 5000)
    assert meter.bounded == {0}
    assert max(rows) < FILES * ROWS_A_FILE / 4, "an epoch took a large part of the backlog"


def test_a_query_without_a_bound_takes_everything(session: SparkSession, tmp_path: Path) -> None:
    """As in Spark: one batch has all there is."""
    totals: dict[int, int] = {}
    query = counted(backlog(session, tmp_path / "in"), tmp_path, totals)
    query.processAllAvailable()
    assert query.epoch == 0
    assert query.input.bound is None
    query.stop()


def test_a_bound_changes_while_the_query_runs(session: SparkSession, tmp_path: Path) -> None:
    """A query that began without a bound gets one, by which it works off a backlog, and loses it again; every row is counted once."""
    totals: dict[int, int] = {}
    written = 0

    def add(files: int) -> None:
        nonlocal written
        rows = session.range(written * ROWS_A_FILE, (written + files) * ROWS_A_FILE, 1, files)
        rows.select("id", (F.col("id") % 5000).alias("key")).write.mode("append").parquet(str(tmp_path / "in"))
        written += files

    def largest_of(files: int) -> int:
        before = query.epoch
        add(files)
        query.processAllAvailable()
        add(1)  # what an epoch has read is known with the next one
        query.processAllAvailable()
        rows: list[int] = [each.total for each in query.input.loads if each.epoch > before]
        return max(rows)

    add(1)
    frame = session.readStream.schema("id long, key long").parquet(str(tmp_path / "in"))
    query = counted(frame, tmp_path, totals)
    query.processAllAvailable()
    assert query.input.bound is None
    query.input.request(MAX_EPOCH)
    add(1)
    query.processAllAvailable()
    assert query.input.bound is not None
    assert largest_of(FILES) < FILES * ROWS_A_FILE / 4, "an epoch took a large part of the backlog"
    query.input.request(None)
    add(1)
    query.processAllAvailable()
    assert query.input.bound is None
    assert largest_of(FILES) >= FILES * ROWS_A_FILE / 4, "epochs are still bounded"
    query.stop()
    assert totals == dict.fromkeys(range(5000), written * ROWS_A_FILE // 5000)


@pytest.mark.parametrize("trigger", ["availableNow", "once"])
def test_a_query_that_ends_by_itself_has_everything(trigger: str, session: SparkSession, tmp_path: Path) -> None:
    """In bounded epochs, or in the one batch that Spark runs for `once`."""
    totals: dict[int, int] = {}
    query = counted(backlog(session, tmp_path / "in"), tmp_path, totals, {trigger: True}, max_epoch=MAX_EPOCH)
    query.awaitTermination()
    assert totals == dict.fromkeys(range(5000), FILES * ROWS_A_FILE // 5000)
    assert (query.epoch == 0) == (trigger == "once")
