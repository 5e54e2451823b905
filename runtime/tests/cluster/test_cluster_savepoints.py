"""A query on a real cluster is copied while it runs, and another one, started from the copy, continues like it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adopted_programs import PROGRAMS, STEPS, Program, conf_kept, frame, put, take_away
from awaiting import awaited
from pyspark.sql import DataFrame, SparkSession
from runs import awaited as seen_in_run
from runs import run_command, running, status

import binshift
from binshift.errors import InvalidSettings
from binshift.log.storage.opening import open_storage
from binshift.log.tools.verification import verify
from binshift.savepoints.states import SavepointState

pytestmark = pytest.mark.cluster

COPIED = 2
"""Steps before the copy."""
CHOSEN = ("aggregates", "sessions")


@pytest.fixture(autouse=True)
def conf(session: SparkSession) -> Iterator[None]:
    """Programs set some of the session's."""
    with conf_kept(session):
        yield


class Query:
    """A query that keeps the rows of each batch."""

    def __init__(self, session: SparkSession, folder: Path, program: Program, checkpoint: Path, **given: Any) -> None:
        self.batches: dict[int, Counter[str]] = {}
        writer = binshift.writeStream(frame(session, folder, program), bins=16, workers=2, **given)
        kept = writer.outputMode(program.mode).foreachBatch(self._keep)
        self.query = kept.option("checkpointLocation", str(checkpoint)).start()

    def _keep(self, batch: DataFrame, number: int) -> None:
        rows = Counter(str(tuple(row)) for row in batch.collect())
        if rows:
            self.batches[number] = rows

    def rows(self, after: int) -> list[Counter[str]]:
        """Of the batches after one, in their order."""
        return [self.batches[number] for number in sorted(self.batches) if number > after]


@pytest.mark.parametrize("name", CHOSEN)
def test_a_query_from_a_snapshot_continues_like_the_first(name: str, session: SparkSession, tmp_path: Path) -> None:
    """Over the rest of the input it gives the same batches, while bins of both move; then it stops and continues by itself (I5)."""
    program = PROGRAMS[name]
    first = Query(session, tmp_path, program, tmp_path / "first")
    for step in range(COPIED):
        put(tmp_path, step, program)
        first.query.processAllAvailable()
    assert first.query.rescale(3).wait(120).value == "settled"
    first.query.processAllAvailable()
    first.query.rescale(2)  # and is copied while bins move
    requested = first.query.savepoints.put("monday", str(tmp_path / "backup"))
    awaited(lambda: requested.state, lambda state: state in (SavepointState.COMPLETE, SavepointState.FAILED), 120)
    assert requested.state is SavepointState.COMPLETE, requested.why
    epoch = requested.progress.epoch
    assert epoch is not None
    assert verify(open_storage(str(tmp_path / "backup" / "binshift"))) == []
    for step in range(COPIED, STEPS):
        put(tmp_path, step, program)
        first.query.processAllAvailable()
        assert first.query.rescale(1 + step % 2).wait(120).value == "settled"
        first.query.processAllAvailable()
    first.query.stop()
    for step in range(COPIED, STEPS):
        take_away(tmp_path, step, program)
    second = Query(session, tmp_path, program, tmp_path / "second", restore_from=str(tmp_path / "backup"))
    for step in range(COPIED, STEPS):
        put(tmp_path, step, program)
        second.query.processAllAvailable()
        assert second.query.rescale(1 + step % 3).wait(120).value == "settled"
        second.query.processAllAvailable()
        second.query.stop()
        kept = second.batches
        second = Query(session, tmp_path, program, tmp_path / "second", restore_from=str(tmp_path / "backup"))
        second.batches.update(kept)
    second.query.stop()
    assert min(second.batches) > epoch
    assert _distinct(second.rows(epoch), program) == _distinct(first.rows(epoch), program)


def test_a_directory_without_a_snapshot_starts_no_query(session: SparkSession, tmp_path: Path) -> None:
    """The error is raised before anything is written."""
    program = PROGRAMS["aggregates"]
    put(tmp_path, 0, program)
    with pytest.raises(InvalidSettings, match=r"no snapshot\.json"):
        Query(session, tmp_path, program, tmp_path / "new", restore_from=str(tmp_path / "nothing"))
    assert not (tmp_path / "new").exists()


def test_a_run_is_copied_and_another_run_starts_from_it(tmp_path: Path) -> None:
    """`binshift snapshot` while the query runs; `binshift run --restore-from` continues after its epoch."""
    program, backup = str(Path(__file__).with_name("steered_program.py")), tmp_path / "backup"

    def epoch() -> int:
        found: int = status(tmp_path)["dataflow"]["epoch"]
        return found

    with running(tmp_path, program, "--", str(tmp_path / "first")):
        seen_in_run(epoch, lambda seen: seen >= 3)
        made = run_command(tmp_path, "snapshot", str(backup), "--output", "json")
        assert made.returncode == 0, made.stderr
        again = run_command(tmp_path, "snapshot", str(backup))
        assert "complete" in again.stdout, again.stderr
    copied = json.loads(made.stdout)
    assert (copied["name"], copied["location"], copied["state"]) == ("backup", str(backup), "Complete")
    verified = run_command(tmp_path, "log", "verify", str(backup / "binshift"))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    with running(tmp_path, program, "--restore-from", str(backup), "--", str(tmp_path / "second")):
        seen_in_run(epoch, lambda seen: seen > copied["epoch"])
        removed = run_command(tmp_path, "snapshot", str(backup), "--remove")
        assert removed.returncode == 0, removed.stderr
    names = {int(each.stem) for each in (tmp_path / "second" / "binshift" / "records").iterdir()}
    assert copied["epoch"] in names
    assert (
        min(int(each.name) for each in (tmp_path / "second" / "commits").iterdir() if each.name.isdigit())
        <= copied["epoch"]
    )
    assert [each for each in backup.rglob("*") if each.is_file()] == []


def _distinct(rows: list[Counter[str]], program: Program) -> list[Counter[str]]:
    """Of batches that repeat all groups, one: a move can add a batch without input."""
    return [each for at, each in enumerate(rows) if not program.repeats or each not in rows[:at]]
