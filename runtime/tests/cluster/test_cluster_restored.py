"""A checkpoint that is replaced while executors live on: what they have kept of the one before does not count."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adopted_programs import PROGRAMS, STEPS, Program, frame, put, run_spark, take_away
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import binshift

pytestmark = pytest.mark.cluster

PROGRAM: Program = PROGRAMS["aggregates"]
SCHEMA = "k long, v long"
KEYS = 64


def test_a_restored_backup_counts_from_itself(session: SparkSession, tmp_path: Path) -> None:
    """The same epochs have other rows after the restore; moves carry what the restored log has (I5)."""
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    totals: Counter[int] = Counter()
    _sums(session, tmp_path, totals, [1, 2], checkpoint)
    shutil.copytree(checkpoint, backup)
    _sums(session, tmp_path, totals, [100, 200, 300], checkpoint)
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    for number in (2, 3, 4):
        (tmp_path / "in" / f"{number}.json").unlink()
    _sums(session, tmp_path, totals, [1000, 2000, 3000, 4000], checkpoint)
    assert totals == Counter(dict.fromkeys(range(KEYS), 1 + 2 + 1000 + 2000 + 3000 + 4000))


def _sums(session: SparkSession, folder: Path, totals: Counter[int], values: list[int], checkpoint: Path) -> None:
    """Run one epoch for each value, which every key gets, with a move after each."""
    source = folder / "in"
    source.mkdir(exist_ok=True)
    rows = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))

    def keep(batch: DataFrame, _: int) -> None:
        totals.update({row.k: row.s - totals[row.k] for row in batch.collect()})

    sums = binshift.writeStream(rows.groupBy("k").agg(F.sum("v").alias("s")), bins=16, workers=2)
    query = sums.outputMode("update").foreachBatch(keep).option("checkpointLocation", str(checkpoint)).start()
    for number, value in enumerate(values, len(list(source.iterdir()))):
        hidden = source / f".{number}.json"
        hidden.write_text("".join(f'{{"k":{key},"v":{value}}}\n' for key in range(KEYS)))
        hidden.rename(source / f"{number}.json")
        query.processAllAvailable()
        assert query.rescale(1 + number % 2).wait(120).value == "settled"
    query.stop()


@pytest.mark.parametrize("second", ["new", "other"])
def test_a_query_can_be_adopted_twice(second: str, session: SparkSession, tmp_path: Path) -> None:
    """The second adoption begins from Spark's state, in the checkpoint of the first or in another one, not from the first's."""
    old = run_spark(session, tmp_path, PROGRAM, range(2), _drained)
    _continued(session, tmp_path, old, tmp_path / "new", _drained)
    for step in range(2, STEPS):
        take_away(tmp_path, step, PROGRAM)
    if second == "new":
        shutil.rmtree(tmp_path / "new")
    rows: list[tuple[Any, ...]] = []
    _continued(session, tmp_path, old, tmp_path / second, lambda batch, _: rows.extend(map(tuple, batch.collect())))
    newest = {row[0]: row[1] for row in rows}
    counted = Counter(row.k for row in _all_rows(session, tmp_path).collect())
    assert newest == {key: counted[key] for key in newest}
    assert len(newest) == len(counted)


def _drained(batch: DataFrame, _: int) -> None:
    batch.collect()


def _continued(
    session: SparkSession, folder: Path, old: Path, checkpoint: Path, sink: Callable[[DataFrame, int], None]
) -> None:
    """Adopt Spark's query and run the other steps, with a move after each."""
    writer = binshift.writeStream(frame(session, folder, PROGRAM), bins=16, workers=2, adopt=str(old))
    kept = writer.outputMode(PROGRAM.mode).foreachBatch(sink)
    query = kept.option("checkpointLocation", str(checkpoint)).start()
    for step in range(2, STEPS):
        put(folder, step, PROGRAM)
        query.processAllAvailable()
        assert query.rescale(1 + step % 2).wait(120).value == "settled"
    query.stop()


def _all_rows(session: SparkSession, folder: Path) -> DataFrame:
    return session.read.schema("k string").json(str(folder / "in0"))
