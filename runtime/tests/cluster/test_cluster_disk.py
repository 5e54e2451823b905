"""Disks that fill up under a running query, and are freed again: it waits, says where and what to do, and loses nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from awaiting import awaited
from counted import Outputs, aggregated, stream
from java_words import java_words
from pyspark.sql import SparkSession
from small_disk import small_disk

from binshift.log.inspect import verify

pytestmark = pytest.mark.cluster

MANY_ATTEMPTS = 200
"""Runs of one epoch: a test fills a disk for longer than a person would let it be."""


@pytest.mark.parametrize("full", ["log", "store"])
def test_a_full_disk_is_waited_for(
    full: str, session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The epoch fails with the directory's name, the query does not; freed, it goes on with the right answer."""
    with small_disk(tmp_path / "log", 96) as log, small_disk(tmp_path / "store", 512) as store:
        settings = {"bins": 32, "workers": 2, "epoch_attempts_max": MANY_ATTEMPTS, "store_map_bytes": 64 << 20}
        frame = aggregated(stream(session), store_directory=str(store.path), **settings)
        outputs = Outputs()
        writer = frame.writeStream.outputMode("update").foreachBatch(outputs)
        query = writer.option("checkpointLocation", str(log.path / "checkpoint")).start()
        try:
            query.await_epoch(3, 120)
            disk = log if full == "log" else store
            with caplog.at_level(logging.WARNING, "binshift.spark.runner"), java_words(session) as said:
                disk.fill()
                told = awaited(lambda: caplog.text + said(), lambda text: str(disk.path) in text, 120)
            assert query.isActive, query.exception()
            stuck = query.epoch
            disk.empty()
            query.await_epoch(stuck + 3, 120)
            query.stop()
        finally:
            if query.isActive:
                query.abort()
        assert "free space there" in told.lower() or "No space left on device" in told
        outputs.check(query.epoch, full)
        assert verify(str(log.path / "checkpoint" / "binshift")) == []
