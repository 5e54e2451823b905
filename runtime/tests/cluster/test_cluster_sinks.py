"""Sinks under kills: executors die between and inside epochs, and the driver dies inside one and is restarted."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from counted import Key, Outputs, Reference, counting
from process_tree import kill_executor
from pyspark.sql import Row, SparkSession

from binshift.local import LocalCluster
from binshift.model import Worker

pytestmark = pytest.mark.cluster

Values = tuple[int, int, int, int]


def _through_kills(cluster: LocalCluster, query: Any) -> int:
    """Kill both workers' executors, each after two more epochs; returns the newest epoch afterwards."""
    for worker in (0, 1):
        query.await_epoch(query.epoch + 2, 120)
        kill_executor(cluster, Worker(worker))
    query.await_epoch(query.epoch + 2, 120)
    return int(query.epoch)


def to_files(directory: Path) -> Any:
    """A foreach writer that appends each row to a file of its epoch; defined here, so that it is pickled by value."""

    class ToFiles:
        epoch = -1

        def open(self, partition: int, epoch: int) -> bool:
            self.epoch = epoch
            return True

        def process(self, row: Row) -> None:
            with (directory / str(self.epoch)).open("a") as file:  # one write, short enough to be atomic
                file.write(json.dumps([row[0], str(row[1]), *row[2:]]) + "\n")

    return ToFiles()


def test_memory_holds_each_epoch_once(cluster: LocalCluster, session: SparkSession, tmp_path: Path) -> None:
    """Exactly once: a replayed epoch replaces its rows."""
    writer = counting(session, bins=32, workers=2).format("memory").queryName("held")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    _through_kills(cluster, query)
    query.stop()
    reference, wanted = Reference(), list[tuple[Any, ...]]()
    for epoch in range(query.epoch + 1):
        wanted += [(*key, *values) for key, values in reference.epoch(epoch).items()]
    assert sorted(map(repr, map(tuple, session.table("held").collect()))) == sorted(map(repr, wanted))


def test_foreach_repeats_rows_and_never_changes_them(
    cluster: LocalCluster, session: SparkSession, tmp_path: Path
) -> None:
    """At least once: repeated rows have the same epoch and the same values."""
    rows = tmp_path / "rows"
    rows.mkdir()
    writer = counting(session, bins=32, workers=2).foreach(to_files(rows))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    last = _through_kills(cluster, query)
    query.abort()
    reference = Reference()
    for epoch in range(last + 1):
        found: dict[Key, set[Values]] = defaultdict(set)
        for line in (rows / str(epoch)).read_text().splitlines():
            name, group, *values = json.loads(line)
            found[name, Decimal(group)].add(tuple(values))
        assert {key: {values} for key, values in reference.epoch(epoch).items()} == found


def printed(text: str) -> dict[int, list[dict[Key, Values]]]:
    """By epoch: every output of it on the console."""
    found: dict[int, list[dict[Key, Values]]] = defaultdict(list)
    for part in text.split(f"{'-' * 43}\nBatch: ")[1:]:
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("|")]
        shown = {(None if name == "NULL" else name, Decimal(group)): values for name, group, *values in cells[1:]}
        numbers = {key: tuple(map(int, values)) for key, values in shown.items()}
        found[int(part.split(maxsplit=1)[0])].append(numbers)  # type: ignore[arg-type]
    return found


def test_the_console_shows_the_same_epoch_again(
    cluster: LocalCluster, session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At least once: all rows printed under a number are that epoch's rows."""
    writer = counting(session, bins=32, workers=2).format("console").option("numRows", "1000")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    last = _through_kills(cluster, query)
    query.stop()
    shown, reference = printed(capsys.readouterr().out), Reference()
    for epoch in range(last + 1):
        wanted = reference.epoch(epoch)
        assert shown[epoch], f"epoch {epoch} was never shown"
        assert all(each == wanted for each in shown[epoch]), epoch


def test_a_batch_left_in_the_middle_comes_again(session: SparkSession, tmp_path: Path) -> None:
    """If the driver dies while the user's function has the rows, the next one passes the same epoch, unchanged."""
    outputs, calls = Outputs(), list[int]()

    def started() -> Any:
        writer = counting(session, bins=32, workers=2)
        return writer.foreachBatch(take).option("checkpointLocation", str(tmp_path)).start()

    def take(frame: Any, epoch: int) -> None:
        calls.append(epoch)
        outputs(frame, epoch)
        if epoch == 3 and calls.count(3) == 1:
            raise KeyError("the driver has died")

    query = started()
    with pytest.raises(Exception, match="the driver has died"):
        query.awaitTermination(120)
    assert query.epoch == 2, "an epoch whose sink failed has no record"
    query = started()
    query.await_epoch(5, 120)
    query.stop()
    assert calls.count(3) == 2
    outputs.check(5, "left in the middle")
