"""If disks fill up under a running query, it waits, names the disk and the fix, and continues without loss once they are freed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from awaiting import awaited
from disk_query import disk_query
from java_stderr import capture_java_stderr
from pyspark.sql import SparkSession
from small_disk import small_disk

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("full", ["log", "store"])
def test_a_full_disk_is_waited_for(
    full: str, session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The epoch fails with the directory's name, the query does not; once there is space, it continues with the correct result."""
    with small_disk(tmp_path / "log", 96) as log, small_disk(tmp_path / "store", 512) as store:
        disk = log if full == "log" else store
        with disk_query(session, log.path, store.path, disk.empty, full) as subject:
            query = subject.query
            query.await_epoch(3, 120)
            with (
                caplog.at_level(logging.WARNING, "binshift.engine.epoch_loop"),
                capture_java_stderr(session) as captured,
            ):
                disk.fill()
                messages = awaited(lambda: caplog.text + captured(), lambda text: str(disk.path) in text, 120)
            assert query.isActive, query.exception()
            stuck = query.epoch
            disk.empty()
            query.await_epoch(stuck + 3, 120)
        assert "free space there" in messages.lower() or "No space left on device" in messages
