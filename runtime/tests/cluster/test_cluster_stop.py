"""Queries that their own functions stop, on Spark."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from counted import counting
from pyspark.sql import DataFrame, SparkSession

from binshift.engine import epoch_loop
from binshift.spark.frontend import stopping

pytestmark = pytest.mark.cluster

PATIENCE_SECONDS = 240.0
LAST = 2
"""The epoch whose function stops the query."""


def test_a_function_stops_its_own_query(session: SparkSession, tmp_path: Path) -> None:
    """The epoch is recorded, the query ends without an error, later stops return, and the next start continues from there."""
    started, seen = threading.Event(), list[int]()

    def function(frame: DataFrame, epoch: int) -> None:
        seen.append(epoch)
        assert started.wait(PATIENCE_SECONDS)
        if epoch == LAST:
            query.stop()

    writer = counting(session, bins=16, workers=2)
    query: Any = writer.foreachBatch(function).option("checkpointLocation", str(tmp_path)).start()
    started.set()
    assert query.awaitTermination(PATIENCE_SECONDS)
    assert not query.isActive
    query.stop()
    assert query.exception() is None
    assert seen == [0, 1, 2]
    assert query.epoch == LAST
    again: Any = writer.option("checkpointLocation", str(tmp_path)).start()
    again.await_epoch(LAST + 1, PATIENCE_SECONDS)
    again.stop()


def test_a_stopped_query_leaves_nothing_in_spark(session: SparkSession, tmp_path: Path) -> None:
    """Its stream is collected once the program has no reference to it, and another has run: an application can start any number of them."""
    jvm: Any = session._jvm
    writer = counting(session, bins=16, workers=2).format("noop").option("checkpointLocation", str(tmp_path))
    streams = []
    for epoch in range(2):
        query: Any = writer.start()
        query.await_epoch(epoch, PATIENCE_SECONDS)
        streams.append(jvm.java.lang.ref.WeakReference(query._jsq.streamingQuery()))
        query.stop()
        del query
    deadline = time.monotonic() + PATIENCE_SECONDS
    while streams[0].get() is not None:
        assert time.monotonic() < deadline
        gc.collect()  # Python's references to Java objects end with the next call
        jvm.java.lang.System.gc()


def test_a_function_waits_for_the_thread_that_stops_its_query(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread gets an error with the reason, so the function returns, and the query ends."""
    monkeypatch.setattr(epoch_loop, "STOP_SECONDS_MAX", 1.0)
    monkeypatch.setattr(stopping, "SPARK_STOP_SECONDS_MAX", 1.0)
    started, messages = threading.Event(), list[str]()

    def stop() -> None:
        try:
            query.stop()
        except TimeoutError as error:
            messages.append(str(error))

    def function(frame: DataFrame, epoch: int) -> None:
        assert started.wait(PATIENCE_SECONDS)
        thread = threading.Thread(target=stop, daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)

    writer = counting(session, bins=16, workers=2)
    query: Any = writer.foreachBatch(function).option("checkpointLocation", str(tmp_path)).start()
    started.set()
    assert query.awaitTermination(PATIENCE_SECONDS)
    assert "its foreachBatch function must return" in messages[0]
    assert not query.isActive
    query.stop()
