"""Streams whose plan standing tasks keep: the same rows and figures as Spark's, with a batch that one stage reads and one that two read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from awaiting import awaited
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from test_cluster_chains import held, kill_executor_of

import binshift
from binshift.local import LocalCluster

pytestmark = pytest.mark.cluster

ROWS = 60
WINDOWS = 4
"""Windows of five seconds that have ended, and are compared; a batch is a second."""

Row = tuple[int, ...]


def numbers(session: SparkSession) -> DataFrame:
    """Sixty values in a batch, a second later than those of the one before, with a watermark of two seconds."""
    made = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 3)
    return made.option("startTimestamp", 1_709_251_200_000).load().withWatermark("timestamp", "2 seconds")


def counts(rows: DataFrame, divisor: int) -> DataFrame:
    """How many multiples of the divisor each of seven keys has, by five seconds."""
    of_key = rows.where(f"value % {divisor} = 0").groupBy(
        F.expr("value % 7").alias("k"), F.window("timestamp", "5 seconds")
    )
    return of_key.agg(F.count("*").alias(f"n{divisor}"), F.sum("value").alias(f"s{divisor}"))


def one(session: SparkSession) -> DataFrame:
    """One stage, which has the batch to itself."""
    return counts(numbers(session), 1).selectExpr("unix_seconds(window.start) AS at", "k", "n1", "s1")


def two(session: SparkSession) -> DataFrame:
    """Two of three stages read the batch."""
    rows = numbers(session)
    joined = counts(rows, 2).join(counts(rows, 3), ["k", "window"])
    return joined.selectExpr("unix_seconds(window.start) AS at", "k", "n2", "s2", "n3", "s3")


class Kept:
    """A sink that keeps rows until enough windows have ended."""

    def __init__(self) -> None:
        self.rows, self.enough = list[Row](), threading.Event()

    def __call__(self, batch: DataFrame, number: int) -> None:
        self.rows += map(tuple, batch.collect())
        if len({row[0] for row in self.rows}) > WINDOWS:
            self.enough.set()

    def ended(self) -> list[Row]:
        """The rows of the first windows."""
        first = sorted({row[0] for row in self.rows})[:WINDOWS]
        return sorted(row for row in self.rows if row[0] in first)


def figures(query: Any) -> set[tuple[object, ...]]:
    """Of each batch with rows: how many, and the first and the last event time among them."""
    batches = [each for each in query.recentProgress if each.numInputRows]
    return {(each.numInputRows, each.eventTime["min"], each.eventTime["max"]) for each in batches}


@pytest.mark.parametrize("killed", [False, True], ids=["calm", "killed"])
@pytest.mark.parametrize("program", [one, two], ids=["one", "two"])
def test_rows_and_figures_are_spark_s(
    program: Any, killed: bool, session: SparkSession, cluster: LocalCluster, points: Path
) -> None:
    """Moved twice; an executor dies within S, so that a run is made again."""
    ours, sparks = Kept(), Kept()
    theirs = program(session).writeStream.foreachBatch(sparks).start()
    awaited(sparks.enough.is_set, bool, 120)
    theirs.stop()
    query = binshift.writeStream(program(session), bins=16, workers=2).foreachBatch(ours).start()
    awaited(lambda: query.epoch, lambda epoch: epoch >= 3, 120)
    for workers in (3, 2):
        assert query.rescale(workers).wait(120).value == "settled"
    if killed:
        kill_executor_of(cluster, held(points, "commit.before"))
    awaited(ours.enough.is_set, bool, 120)
    jobs: Any = query.dataflow.epochs.ports.jobs
    tasks = jobs.standing
    query.stop()
    assert tasks.epochs > 0
    assert ours.ended() == sparks.ended()
    assert len(ours.ended()) == 7 * WINDOWS
    same = figures(query) & figures(theirs)
    assert len(same) >= 5 * WINDOWS
    assert {each[0] for each in figures(query)} == {each[0] for each in same}
