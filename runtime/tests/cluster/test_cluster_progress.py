"""Progress reports on a real cluster: Spark's, with the state's figures, for the query and for listeners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from counted import GROUPS, NAMES, ROWS, counting, key_of
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

import binshift

pytestmark = pytest.mark.cluster


class RecordingListener(StreamingQueryListener):
    """Keeps progress by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, StreamingQueryProgress] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        """Nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        """Keep it."""
        self.batches[event.progress.batchId] = event.progress

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        """Nothing."""


def test_progress_has_the_state(session: SparkSession, tmp_path: Path) -> None:
    """Keys and changes are counted correctly in every batch; a wrapped listener gets the same reports."""
    plain, wrapped = RecordingListener(), RecordingListener()
    listeners = [plain, binshift.state_listener(wrapped)]
    for listener in listeners:
        session.streams.addListener(listener)
    writer = counting(session, bins=32, workers=2).format("noop")
    query: Any = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        while query.lastProgress is None or query.lastProgress.batchId < 2 or 2 not in wrapped.batches:
            assert query.isActive, query.exception()
            query.awaitTermination(0.05)
        recent, last = query.recentProgress, query.lastProgress
    finally:
        query.stop()
        for listener in listeners:
            session.streams.removeListener(listener)
    assert type(last) is StreamingQueryProgress
    by_batch = {each.batchId: each for each in recent}
    for batch in range(3):
        [entry] = by_batch[batch].stateOperators
        so_far = {key_of(value) for value in range((batch + 1) * ROWS)}
        touched = {key_of(value) for value in range(batch * ROWS, (batch + 1) * ROWS)}
        assert entry.numRowsTotal == len(so_far) <= NAMES * GROUPS
        assert entry.numRowsUpdated == len(touched)
        assert entry.numRowsRemoved == entry.numRowsDroppedByWatermark == 0
        assert entry.memoryUsedBytes > 0
        assert entry.customMetrics["bins"] == 32
        assert entry.customMetrics["workers"] == entry.numStateStoreInstances == 2
        assert entry.customMetrics["deltaBytes"] > 0
        assert wrapped.batches[batch].stateOperators == [entry]
    assert all(each.stateOperators == [] for each in plain.batches.values())
