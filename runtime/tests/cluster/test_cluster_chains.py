"""Several stateful operators in one query, against Spark's own, while bins move and executors die between the stages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from awaiting import awaited
from process_tree import descendants, kill_executor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import binshift
from binshift.local import LocalCluster
from binshift.model import Worker

pytestmark = pytest.mark.cluster

START = datetime(2024, 3, 1, tzinfo=UTC)
STEPS = 6
ROWS = 400
Rows = set[tuple[object, ...]]


def totals(events: DataFrame) -> DataFrame:
    """Three operators: rows once, their number by key and ten seconds, largest and middle number of ten seconds."""
    once = events.withWatermark("ts", "5 seconds").dropDuplicates(["id", "ts"])
    counts = once.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"))
    return (
        counts.groupBy("window")
        .agg(F.max("n").alias("most"), F.sum("n").alias("all"), F.percentile("n", 0.5).alias("middle"))
        .select("window.end", "most", "all", "middle")
    )


def put(folder: Path, step: int) -> None:
    """The rows of one step, every third of them twice; each step is ten seconds later."""
    folder.mkdir(exist_ok=True)
    numbers = [step * ROWS + at for at in range(ROWS)]
    numbers += numbers[::3]
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "k": pa.array([each % 37 for each in numbers], pa.int64()),
            "ts": pa.array(
                [START + timedelta(seconds=each / ROWS * 10) for each in numbers], pa.timestamp("us", "UTC")
            ),
        }
    )
    hidden = folder.parent / f"{step}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(folder / hidden.name)


def stream(session: SparkSession, folder: Path) -> DataFrame:
    """The rows, one file a batch."""
    folder.mkdir(exist_ok=True)
    return (
        session.readStream.schema("id long, k long, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(folder))
    )


def keeper(rows: Rows) -> Callable[[DataFrame, int], None]:
    """A sink that adds each batch to ``rows``."""

    def keep(batch: DataFrame, _: int) -> None:
        rows.update(map(tuple, batch.collect()))

    return keep


def held(points: Path, name: str) -> int:
    """The process that has reached the failpoint ``name``, and stands still there."""
    (points / name).touch()
    found: list[int] = awaited(
        lambda: [int(each.name.split(".")[-2]) for each in points.glob(f"{name}.*.held")], bool, 60
    )
    return found[0]


def kill_executor_of(cluster: LocalCluster, pid: int) -> None:
    """Kill the executor whose Python worker this is."""
    owners = [w for w in cluster.running if pid in descendants(*cluster.executor_pids(Worker(w)))]
    assert len(owners) == 1, owners
    kill_executor(cluster, owners[0])


@pytest.mark.parametrize("kills", [[], ["commit.after"], ["commit.after", "epoch.fenced"]])
def test_a_chain_gives_what_spark_gives(
    kills: list[str], session: SparkSession, cluster: LocalCluster, points: Path, tmp_path: Path
) -> None:
    """Batch by batch the same rows, with moves in each step and an executor killed between S of one stage and S of the next (I5).

    The first process to reach ``commit.after`` in an epoch has committed the first stage's state. Held there, it lets the
    first task of the next stage be caught at ``epoch.fenced`` as soon as it continues.
    """
    folder = tmp_path / "in"
    found: dict[str, list[Rows]] = {"ours": [], "sparks": []}
    for name in found:
        rows: Rows = set()
        frame = totals(stream(session, folder))
        writer = binshift.writeStream(frame, bins=16, workers=2) if name == "ours" else frame.writeStream
        query: Any = writer.foreachBatch(keeper(rows)).start()
        for step in range(STEPS):
            if name == "ours":
                put(folder, step)
                if step == 3 and kills:
                    _kill(cluster, points, kills)
                query.processAllAvailable()
                assert query.rescale(1 + step % 2).wait(120).value == "settled"
            query.processAllAvailable()
            found[name].append(set(rows))
        query.stop()
    assert len(found["sparks"][-1]) >= STEPS - 2
    assert found["ours"][-1] == found["sparks"][-1]


def _kill(cluster: LocalCluster, points: Path, kills: list[str]) -> None:
    pid = held(points, kills[0])
    if len(kills) == 1:
        kill_executor_of(cluster, pid)
        return
    (points / kills[1]).touch()
    (points / f"{kills[0]}.{pid}.go").touch()
    kill_executor_of(cluster, held(points, kills[1]))
