"""Standby copies on a Spark cluster: an executor dies, and the workers with copies of its bins continue in the same epoch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from awaiting import awaited
from process_tree import kill_executor
from pyspark.sql import DataFrame, SparkSession
from test_cluster_chains import ROWS, held, kill_executor_of, put, stream

import binshift
from binshift.local import LocalCluster
from binshift.model import BinSet, Worker
from binshift.replicas import standby_workers

pytestmark = pytest.mark.cluster

BINS, WORKERS, KEYS = 32, 3, 37
NEVER_SECONDS = 3600.0
RUNS_MAX = 3


def counted(session: SparkSession, folder: Path, counts: dict[int, int]) -> Any:
    """A count by key with standby copies, whose result is ``counts``. A lost worker is waited for for an hour, if it is waited for."""

    def keep(batch: DataFrame, _: int) -> None:
        counts.update({row["k"]: row["count"] for row in batch.collect()})

    waits = {"standby_replicas": 1, "lost_worker_timeout_seconds": NEVER_SECONDS}
    writer = binshift.writeStream(stream(session, folder).groupBy("k").count(), bins=BINS, workers=WORKERS, **waits)
    return writer.outputMode("update").foreachBatch(keep).start()


def copied(query: Any) -> None:
    """Wait until every bin has its standby copy."""
    flow = query.dataflow
    standbys = flow.coordinator.migrations.standbys

    def bins() -> int:
        with flow.coordinator.lock:
            found = standbys.figures(flow.log.index)
        return found.bins if found is not None else 0

    awaited(bins, lambda found: found == BINS, 60)


def expected(steps: int) -> dict[int, int]:
    """The counts after so many steps of `put`."""
    numbers = [step * ROWS + at for step in range(steps) for at in range(ROWS)]
    again = [step * ROWS + at for step in range(steps) for at in range(0, ROWS, 3)]
    return dict(Counter(number % KEYS for number in [*numbers, *again]))


@pytest.mark.parametrize("point", [None, "commit.before", "commit.after"], ids=["between", "before", "after"])
def test_standbys_take_over(
    point: str | None, session: SparkSession, cluster: LocalCluster, points: Path, tmp_path: Path
) -> None:
    """The bins are their standbys', no epoch waits for the executor, all rows are counted once, and the bins come back (I1, I5)."""
    folder, counts = tmp_path / "in", dict[int, int]()
    query = counted(session, folder, counts)
    for step in range(3):
        put(folder, step)
        query.processAllAvailable()
    copied(query)
    before, standby = query.route, standby_workers(query.route)
    if point is None:
        kill_executor(cluster, Worker(1))
        put(folder, 3)
    else:
        put(folder, 3)
        kill_executor_of(cluster, held(points, point))
    query.processAllAvailable()
    put(folder, 4)  # a task that has answered does not fail its epoch: the next one finds it lost
    query.processAllAvailable()
    moves = next(each for each in query.migrations if each.request.moves).request.moves
    lost = {before.owner(b) for b in moves}
    assert len(lost) == 1
    assert BinSet(moves) == before.bins_of(*lost)
    assert all(worker == standby[b] for b, worker in moves.items())
    assert all(each.runs <= RUNS_MAX for each in query.timings)
    awaited(lambda: query.route.workers, lambda workers: workers == (0, 1, 2), 60)
    for step in range(5, 7):
        put(folder, step)
        query.processAllAvailable()
    copied(query)
    query.stop()
    assert counts == expected(7)
