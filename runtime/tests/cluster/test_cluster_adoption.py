"""A Spark query stopped in the middle of its stream, and continued by binshift from its checkpoint, with moves and a restart."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from adopted_programs import PROGRAMS, STEPS, Program, conf_kept, frame, put, run_spark, take_away
from pyspark.sql import DataFrame, SparkSession

import binshift

pytestmark = pytest.mark.cluster

STOPPED = 2
"""Steps that Spark runs before it is stopped."""

Batches = dict[int, Counter[str]]


@pytest.fixture(autouse=True)
def conf(session: SparkSession) -> Iterator[None]:
    """Programs set some of the session's."""
    with conf_kept(session):
        yield


def keeper(batches: Batches) -> Callable[[DataFrame, int], None]:
    """A sink that keeps the rows of each batch that has any."""

    def keep(batch: DataFrame, number: int) -> None:
        rows = Counter(str(tuple(row)) for row in batch.collect())
        if rows:
            batches[number] = rows

    return keep


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_adopted_query_continues_as_spark_would(name: str, session: SparkSession, tmp_path: Path) -> None:
    """From Spark's next batch on, each batch has the rows that Spark itself returns when it continues, while all bins move (I5)."""
    program: Program = PROGRAMS[name]
    before: Batches = {}
    old = run_spark(session, tmp_path, program, range(STOPPED), keeper(before))
    shutil.copytree(old, tmp_path / "copy")
    theirs = _continued(session, tmp_path, program, old)
    for step in range(STOPPED, STEPS):
        take_away(tmp_path, step, program)
    shutil.rmtree(old)
    shutil.copytree(tmp_path / "copy", old)
    ours: Batches = {}
    query = _adopted(session, tmp_path, program, old, ours)
    for step in range(STOPPED, STEPS):
        _run_step(query, tmp_path, step, program)
        query.stop()
        query = _adopted(session, tmp_path, program, old, ours)
    query.stop()
    assert theirs or program.mode == "append"
    assert _steps(ours, program) == _steps(theirs, program)


def test_an_adopted_query_continues_the_directory_of_sparks_files(session: SparkSession, tmp_path: Path) -> None:
    """Readers notice nothing: what they read is what they would read if Spark had continued, also where it wrote a batch and did not commit it."""
    program = PROGRAMS["windows"]
    old, out = tmp_path / "old", tmp_path / "out"
    _spark_files(session, tmp_path, program, old, out, range(STOPPED))
    for kept in (old, out):
        shutil.copytree(kept, tmp_path / f"{kept.name} copy")
    _spark_files(session, tmp_path, program, old, out, range(STOPPED, STEPS))
    expected = sorted(map(str, session.read.parquet(str(out)).collect()))
    for step in range(STOPPED, STEPS):
        take_away(tmp_path, step, program)
    for kept in (old, out):
        shutil.rmtree(kept)
        (tmp_path / f"{kept.name} copy").rename(kept)
    max((old / "commits").glob("[0-9]*"), key=lambda path: int(path.name)).unlink()
    writer = binshift.writeStream(frame(session, tmp_path, program), bins=16, workers=2, adopt=str(old)).format(
        "parquet"
    )
    query = writer.option("checkpointLocation", str(tmp_path / "new")).start(str(out))
    for step in range(STOPPED, STEPS):
        _run_step(query, tmp_path, step, program)
    query.stop()
    assert len(expected) > 0
    assert sorted(map(str, session.read.parquet(str(out)).collect())) == expected


def _run_step(query: Any, folder: Path, step: int, program: Program) -> None:
    """The rows of a step, then a move of all bins."""
    put(folder, step, program)
    query.processAllAvailable()
    assert query.rescale(1 + step % 2).wait(120).value == "settled"
    query.processAllAvailable()


def _spark_files(
    session: SparkSession, folder: Path, program: Program, checkpoint: Path, out: Path, steps: Sequence[int]
) -> None:
    """Spark's own query, with files as its sink."""
    writer = frame(session, folder, program).writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(checkpoint)).start(str(out))
    for step in steps:
        put(folder, step, program)
        query.processAllAvailable()
    query.stop()


def _continued(session: SparkSession, folder: Path, program: Program, old: Path) -> Batches:
    """The batches of Spark's own query, which gets the same files one after the other."""
    batches: Batches = {}
    writer = frame(session, folder, program).writeStream.outputMode(program.mode).foreachBatch(keeper(batches))
    query = writer.option("checkpointLocation", str(old)).start()
    for step in range(STOPPED, STEPS):
        put(folder, step, program)
        query.processAllAvailable()
    query.stop()
    return batches


def _adopted(session: SparkSession, folder: Path, program: Program, old: Path, batches: Batches) -> Any:
    writer = binshift.writeStream(frame(session, folder, program), bins=16, workers=2, adopt=str(old))
    kept = writer.outputMode(program.mode).foreachBatch(keeper(batches))
    return kept.option("checkpointLocation", str(folder / "new")).start()


def _steps(batches: Batches, program: Program) -> list[Counter[str]]:
    """The rows in the order of batches; of batches that repeat all groups, one."""
    rows = [batches[number] for number in sorted(batches)]
    return [each for at, each in enumerate(rows) if not program.repeats or each not in rows[:at]]
