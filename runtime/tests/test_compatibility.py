"""Checkpoints of released versions: the current code reads every file, finds the same state, and continues it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import checkpoint_0_1 as old
import pytest

from binshift.log.index.manifests import decode_manifest
from binshift.log.log import Log
from binshift.log.records.commits import decode_record
from binshift.log.records.envelope import FORMAT_VERSION, FORMATS_READ
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.log.tools.verification import verify
from binshift.model import Epoch
from binshift.state.reader import StateLog

LAST = len(old.INPUT) - 1
LOGS = ("aggregate", "processor")


def opened(log: str, place: Path) -> Storage:
    """A copy of a log, which may be written."""
    shutil.copytree(old.FOLDER / log, place / log)
    return open_storage(str(place / log / "binshift"), old.OPTIONS)


def rows(log: StateLog, epoch: int, name: str | None = None) -> list[dict[str, Any]]:
    """The rows of the first operator at an epoch."""
    operator = log.operator(0)
    found = log.at(operator, log.rows_of(operator, name), Epoch(epoch))
    return [row for bins in found.parts(2) for batch in found.read(log.storage, bins) for row in batch.to_pylist()]


@pytest.mark.parametrize("log", LOGS)
def test_every_file_is_read(log: str, tmp_path: Path) -> None:
    """Verification, which reads each file to its end, finds nothing wrong; the format is one of the readable ones."""
    storage = opened(log, tmp_path)
    assert verify(storage) == []
    state = StateLog.open(str(old.FOLDER / log))
    assert state.format.format == 4
    assert {4, FORMAT_VERSION} <= set(FORMATS_READ)
    kinds = {each.kind for listed in storage.list("") if (each := layout.parse(listed.name))}
    assert kinds >= {"format", "terms", "records", "deltas"}
    assert log == "aggregate" or kinds >= {"snapshots", "manifests", "targets", "schemas"}


def test_records_have_the_history(tmp_path: Path) -> None:
    """Routes, workers, times, snapshots and the manifest of the records are those of the history."""
    storage = opened("processor", tmp_path)
    names = [layout.record_name(Epoch(epoch)) for epoch in range(LAST + 1)]
    records = [decode_record(name, storage.get(name)) for name in names]
    assert [record.batch_time_ms for record in records] == [1000 * (epoch + 1) for epoch in range(LAST + 1)]
    assert [bool(record.moves) for record in records] == [epoch in (0, 2, 6) for epoch in range(LAST + 1)]
    assert [record.run for record in records] == [int(epoch == 6) for epoch in range(LAST + 1)]
    assert sum(len(record.snapshots) for record in records) > 3
    assert records[-1].manifest == 7
    name, format = layout.manifest_name(Epoch(7)), StateLog.open(storage.url).format
    assert decode_manifest(name, storage.get(name), format.bins, format.operator_names, format.fingerprint).last == 7
    target = Log.on(storage, format).targets.newest().target
    assert target is not None
    assert target.workers == (0, 1, 2)


def test_state_is_read_at_each_epoch() -> None:
    """Offline, values, lists, maps and groups are as they were, at the last epoch and before."""
    log = StateLog.open(str(old.FOLDER / "processor"))
    found = {(row["key"]["k"],): (row["value"]["n"],) for row in rows(log, LAST, "value")}
    assert found == old.VALUES
    listed = sorted((row["key"]["k"], row["list_element"]["n"]) for row in rows(log, LAST, "list"))
    assert listed == sorted((key, n) for (key,), values in old.LISTS.items() for (n,) in values)
    mapped = {(row["key"]["k"], row["user_map_key"]["u"], row["user_map_value"]["n"]) for row in rows(log, LAST, "map")}
    assert mapped == {(key, *u, *n) for (key,), entries in old.MAPS.items() for u, n in entries.items()}
    before = {row["key"]["k"]: row["value"]["n"] for row in rows(log, LAST - 1, "value")}
    assert before["d"] == 6
    counts = StateLog.open(str(old.FOLDER / "aggregate"))
    assert {row["key"]["word"]: row["value"]["count"] for row in rows(counts, 2)} == {"a": 5, "c": 7}


def test_an_aggregation_is_continued(tmp_path: Path) -> None:
    """A new driver takes the next term, appends an epoch, and both old and new groups are read."""
    storage = opened("aggregate", tmp_path)
    log = Log.on(storage, old.count_format())
    assert (log.term, log.index.last, log.warnings) == (2, 2, ())
    old.append_counts(log, 3, {"c": 8, "d": 1})
    found = {row["key"]["word"]: row["value"]["count"] for row in rows(StateLog.open(storage.url), 3)}
    assert found == {"a": 5, "c": 8, "d": 1}


def test_a_processor_is_continued(tmp_path: Path) -> None:
    """Without local stores the engine rebuilds every bin; rows, moves and timers go by the old state."""
    flow = old.continued(opened("processor", tmp_path))
    assert flow._running.log.term == 2
    assert {name: flow.state(name) for name in ("value", "list", "map")} == {
        "value": old.VALUES,
        "list": old.LISTS,
        "map": old.MAPS,
    }
    flow.epoch([("a", 100), ("g", 1)])
    flow.rescale(2)
    flow.epoch([("b", 0)])
    lists = {key: values for key, values in old.LISTS.items() if key != ("b",)}
    lists |= {("a",): [*old.LISTS["a",], (100,)], ("g",): [(1,)]}
    assert flow.state("list") == lists
    ended = flow.epoch(time_ms=old.TIMERS_LAST_MS)
    timers = [key for given in old.INPUT for key, value in given if value]
    assert sorted((row.k, row.n) for row in ended) == sorted((key, len(lists.get((key,), ()))) for key in timers)
