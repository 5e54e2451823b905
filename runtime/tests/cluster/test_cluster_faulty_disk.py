"""If disks are slow, hang, fail or are write-protected under a running query, it takes longer, or names the problem."""

from __future__ import annotations

import logging
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from awaiting import awaited
from counted import Reference, counting
from disk_query import disk_query
from faulty_disk import faulty_disk
from java_stderr import capture_java_stderr
from pyspark.sql import SparkSession

from binshift.engine.epoch_plan import BatchOffsets
from binshift.errors import StorageUnavailable
from binshift.log.storage.contract import Storage
from binshift.model import Epoch
from binshift.spark.session import offsets

pytestmark = pytest.mark.cluster

CALL_SECONDS = 0.02
"""The delay of each call to a slow disk, as on a busy file server. Writing one file of the log takes about twelve calls."""

STILL_SECONDS = 25.0
"""Longer than two heartbeats of an executor."""


def _threads() -> list[str]:
    """The threads that queries have started."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("binshift-")]


@pytest.mark.parametrize("faulty", ["log", "store"])
def test_a_slow_disk_costs_time_only(faulty: str, session: SparkSession, tmp_path: Path) -> None:
    """Calls take 20 ms, then none returns for 25 s, with bins moving both times: the result is the same, and no epoch fails."""
    with faulty_disk(tmp_path / "faulty") as disk:
        places = {"log": tmp_path / "log", "store": tmp_path / "store"} | {faulty: disk.path}
        with disk_query(session, places["log"], places["store"], disk.repair, faulty) as subject:
            query = subject.query
            query.await_epoch(6, 120)
            disk.slow(CALL_SECONDS)
            assert query.rescale(3, batch_size=4).wait(300).value == "settled"
            query.await_epoch(query.epoch + 2, 120)
            migration = query.rescale(2, batch_size=4)
            disk.stand_still()
            time.sleep(STILL_SECONDS)  # the tested delay, not a wait for a condition
            assert query.isActive, query.exception()
            disk.repair()
            assert migration.wait(120).value == "settled"
            query.await_epoch(query.epoch + 2, 120)
            committed = [each.committed_at for each in query.timings]
            assert max(after - before for before, after in pairwise(committed)) > STILL_SECONDS / 2, (
                "the delay had no effect"
            )
            assert all(each.runs == 1 for each in query.timings)


@pytest.mark.parametrize("faulty", ["log", "store"])
def test_a_failing_disk_is_waited_for(
    faulty: str, session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each call fails as on a broken disk; once the disk is repaired, the query continues with the correct result."""
    with faulty_disk(tmp_path / "faulty") as disk:
        places = {"log": tmp_path / "log", "store": tmp_path / "store"} | {faulty: disk.path}
        with disk_query(session, places["log"], places["store"], disk.repair, faulty) as subject:
            query = subject.query
            query.await_epoch(4, 120)
            with (
                caplog.at_level(logging.WARNING, "binshift.engine.epoch_loop"),
                capture_java_stderr(session) as captured,
            ):
                disk.refuse("EIO")
                awaited(lambda: caplog.text + captured(), lambda text: str(disk.path) in text, 120)
            assert query.isActive, query.exception()
            disk.repair()
            query.await_epoch(query.epoch + 3, 120)


def test_a_log_that_may_no_longer_be_written_ends_the_query(session: SparkSession, tmp_path: Path) -> None:
    """The disk is write-protected, as by a kernel after an error: the error names the directory; once repaired, everything is kept."""
    with (
        faulty_disk(tmp_path / "faulty") as disk,
        disk_query(session, disk.path, tmp_path / "store", disk.repair, "protected") as subject,
    ):
        query = subject.query
        query.await_epoch(4, 120)
        disk.refuse("EROFS")
        awaited(lambda: query.isActive, lambda active: not active, 180)
        found = str(query.exception())
        assert f"{disk.path}/checkpoint" in found
        assert "Read-only file system" in found
        assert "give the user that runs binshift the right" in found
        awaited(_threads, lambda names: names == [], 30)
        disk.repair()
        query = subject.start()
        query.await_epoch(query.epoch + 3, 120)


def test_an_epoch_waits_for_its_offsets(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Offsets cannot be read between Spark's writing them and the epoch: the epoch begins once they can."""
    read, failed = offsets.read, list[Epoch]()

    def now_and_then(checkpoint: Storage, epoch: Epoch) -> BatchOffsets:
        if epoch == 2 and len(failed) < 3:
            failed.append(epoch)
            raise StorageUnavailable("the file server is unavailable; the read is retried")
        return read(checkpoint, epoch)

    monkeypatch.setattr(offsets, "read", now_and_then)
    with (
        caplog.at_level(logging.WARNING, "binshift.engine.epoch_loop"),
        disk_query(session, tmp_path / "log", tmp_path / "store", lambda: None, "offsets") as subject,
    ):
        subject.query.await_epoch(4, 120)
    assert caplog.text.count("epoch 2 cannot begin: the file server is unavailable") == len(failed) == 3


def test_results_on_a_disk_that_fills_up_and_fails(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk is waited for; with a write-protected one the query ends with an error; every row exists in the end."""
    with faulty_disk(tmp_path / "faulty") as disk:
        out = disk.path / "out"

        def begun() -> Any:
            writer = counting(session, bins=32, workers=2).format("parquet")
            return writer.option("checkpointLocation", str(tmp_path / "log")).start(str(out))

        query = begun()
        try:
            query.await_epoch(2, 120)
            with caplog.at_level(logging.WARNING, "binshift.engine.epoch_loop"):
                disk.refuse("ENOSPC", "write")
                awaited(lambda: caplog.text, lambda text: f"{out}/" in text and "has no room" in text, 120)
            disk.repair()
            query.await_epoch(query.epoch + 2, 120)
            disk.refuse("EIO", "mkdir")
            awaited(lambda: query.isActive, lambda active: not active, 120)
            assert f"{out}/" in str(query.exception())
            disk.repair()
            query = begun()
            query.await_epoch(query.epoch + 2, 120)
            query.stop()
        finally:
            disk.repair()
            if query.isActive:
                query.abort()
        reference, rows = Reference(), session.read.parquet(str(out)).collect()
        for epoch in range(query.epoch + 1):
            found = [((row[0], row[1]), (row[2], row[3], row[4], row[5])) for row in rows if row["epoch"] == epoch]
            assert dict(found) == reference.epoch(epoch), epoch
            assert len(dict(found)) == len(found), epoch
