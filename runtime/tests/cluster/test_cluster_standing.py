"""Epochs in standing tasks: the same rows as Spark's while bins move and executors die, the same errors, and nothing left behind."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from awaiting import awaited
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from test_cluster_chains import ROWS, STEPS, held, keeper, kill_executor_of, put, stream, totals

import binshift
from binshift.errors import UserFunctionFailed
from binshift.local import LocalCluster

pytestmark = pytest.mark.cluster


def standing(query: Any) -> Any:
    """The `StandingTasks` of a query; None if each epoch is a job."""
    return query.dataflow.epochs.ports.jobs.standing


def started(frame: DataFrame, sink: Any, mode: str = "append", *, stands: bool = True) -> Any:
    """A query that uses them, or does not."""
    writer = binshift.writeStream(frame, bins=16, workers=2, standing_tasks=stands)
    return writer.outputMode(mode).foreachBatch(sink).start()


@pytest.mark.parametrize(
    ("kill", "stands", "early"),
    [
        (None, True, True),
        ("commit.before", True, True),
        ("commit.answered", True, False),
        ("commit.after", True, True),
        ("commit.before", False, True),
    ],
    ids=["calm", "commit.before", "commit.answered", "commit.after", "jobs"],
)
def test_a_chain_gives_what_spark_gives(
    kill: str | None,
    stands: bool,
    early: bool,
    session: SparkSession,
    cluster: LocalCluster,
    points: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three operators, with a move in each step and an executor killed within S (I3, I5), in standing tasks and in Spark jobs.

    Aggregations begin before the exchange, from the second epoch in standing tasks on; in one case they are whole behind it.
    """
    monkeypatch.setattr("binshift.spark.jobs.standing.begins_early", lambda reports: early)
    folder = tmp_path / "in"
    rows: set[tuple[object, ...]] = set()
    sparks: set[tuple[object, ...]] = set()
    query = started(totals(stream(session, folder)), keeper(rows), stands=stands)
    for step in range(STEPS):
        put(folder, step)
        if step == 3 and kill is not None:
            kill_executor_of(cluster, held(points, kill))
        query.processAllAvailable()
        assert query.rescale(1 + step % 2).wait(120).value == "settled"
    query.processAllAvailable()
    tasks = standing(query)
    query.stop()
    assert (tasks.epochs if tasks else 0) >= (STEPS if stands else 0)
    assert (tasks is not None) == stands
    theirs = totals(stream(session, folder)).writeStream.foreachBatch(keeper(sparks)).start()
    theirs.processAllAvailable()
    theirs.stop()
    assert rows == sparks
    assert len(rows) >= STEPS - 2


@pytest.mark.parametrize("kind", ["inner", "left_outer"])
def test_a_join_gives_what_spark_gives(kind: str, session: SparkSession, tmp_path: Path) -> None:
    """Rows of two streams, and of a large epoch, whose result stays on the executors; of an outer join Spark reads the state."""
    one, other = tmp_path / "one", tmp_path / "other"
    found: dict[str, Counter[tuple[object, ...]]] = {}
    for name in ("ours", "sparks"):
        kept: Counter[tuple[object, ...]] = Counter()
        left = stream(session, one).withWatermark("ts", "5 seconds").alias("l")
        right = stream(session, other).withWatermark("ts", "5 seconds").alias("r")
        wide = F.repeat(F.col("l.k").cast("string"), 4000).alias("wide")
        holds = F.expr("l.id = r.id AND l.ts = r.ts AND length(concat(l.k, r.k)) < 4")
        frame = left.join(right, holds, kind).select("l.id", "r.k", wide)

        def keep(batch: DataFrame, _: int, kept: Counter[tuple[object, ...]] = kept) -> None:
            kept.update(map(tuple, batch.collect()))

        query = started(frame, keep) if name == "ours" else frame.writeStream.foreachBatch(keep).start()
        for step in range(3):
            if name == "ours":
                put(one, step)
                put(other, step)
            query.processAllAvailable()
        if name == "ours":
            assert standing(query).epochs > 0
        query.stop()
        found[name] = kept
    assert found["ours"] == found["sparks"]
    assert found["ours"]


def test_an_error_of_the_user_is_the_same(session: SparkSession, tmp_path: Path) -> None:
    """It ends the query, with the user's line, whether it is raised in Python or in Java."""
    folder = tmp_path / "in"
    failing = F.udf(lambda k: 1 // (k - 1_000_000), "long")

    def total(rows: DataFrame) -> DataFrame:
        return rows.groupBy("k").agg(F.sum(failing("id")).alias("n"))

    query = started(total(stream(session, folder)), lambda batch, epoch: None, "update")
    put(folder, 0)
    query.processAllAvailable()
    put(folder, 1)
    query.processAllAvailable()
    assert standing(query).epochs > 0
    put(folder, 1_000_000 // 400)
    with pytest.raises(UserFunctionFailed, match="ZeroDivisionError"):
        query.awaitTermination(60)


def test_a_stopped_query_leaves_no_task(session: SparkSession, tmp_path: Path) -> None:
    """Its standing tasks end with it, and its sockets are gone while it runs."""
    folder = tmp_path / "in"
    before = set(os.listdir("/tmp"))
    query = started(stream(session, folder).groupBy("k").count(), lambda batch, epoch: None, "update")
    for step in range(3):
        put(folder, step)
        query.processAllAvailable()
    assert standing(query).epochs > 0

    def sockets() -> list[Path]:
        return [path for each in os.listdir("/tmp") if each not in before for path in Path("/tmp", each).glob("s")]

    awaited(sockets, lambda found: not found, 20)  # each is there until its Python worker has connected
    query.stop()
    tracker = session.sparkContext.statusTracker()
    awaited(tracker.getActiveJobsIds, lambda jobs: not jobs, 20)


def test_a_stage_that_needs_a_job_is_met_once(session: SparkSession, tmp_path: Path) -> None:
    """The current time behind an operator is a constant of its epoch: one run fails, and from then on every epoch is a job."""
    folder = tmp_path / "in"
    rows: set[tuple[object, ...]] = set()
    once = stream(session, folder).withWatermark("ts", "5 seconds").dropDuplicates(["id", "ts"])
    counts = once.where(F.col("ts") < F.current_timestamp()).groupBy(F.window("ts", "10 seconds")).agg(F.count("*"))
    query = started(counts.select("window.end", "count(1)"), keeper(rows))
    for step in range(STEPS):
        put(folder, step)
        query.processAllAvailable()
    failed = query.dataflow.epochs.runs_failed
    query.stop()
    assert {count for _, count in rows} == {ROWS}
    assert len(rows) >= STEPS - 2
    assert failed <= 1


def test_metrics_behind_the_operators_are_observed(session: SparkSession, tmp_path: Path) -> None:
    """Those of each batch are Spark's, and its epoch is in standing tasks."""
    folder = tmp_path / "in"
    found: list[dict[int, Any]] = []
    for ours in (True, False):
        rows = stream(session, folder).groupBy("k").count()
        frame = rows.observe("behind", F.sum("count").alias("n"), F.count("*").alias("keys"))
        writer = binshift.writeStream(frame, bins=16, workers=2) if ours else frame.writeStream
        query = writer.outputMode("update").format("noop").start()
        for step in range(4):
            if ours:
                put(folder, step)
            query.processAllAvailable()
        if ours:
            assert standing(query).epochs > 0
        query.stop()
        progress = [each for each in query.recentProgress if each.numInputRows]
        found.append({each.batchId: each.observedMetrics["behind"] for each in progress})
    assert found[0] == found[1]
    assert len(found[0]) == 4
