"""The state of a log without Spark: at each epoch, as changes, as bytes where nothing describes it, and by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from appended_deltas import append_delta

from binshift import entries
from binshift.errors import ForeignLog, InvalidQuery
from binshift.log.log import Log
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.storage.opening import open_storage
from binshift.model import Epoch, Worker
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import STATE_SPACE, prefixed
from binshift.operators.merge import Merge, MergeSpec
from binshift.routing import Route
from binshift.rows import RowCodec
from binshift.state.command import main
from binshift.state.descriptions import to_formats
from binshift.state.reader import StateLog, StateRows

KEYS, BUFFERS = pa.schema([("k0", pa.string())]), pa.schema([("p0", pa.int64())])
COUNT = Aggregate(KEYS, BUFFERS, (MergeSpec(Merge.COUNT, ("p0",)),), OutputMode.UPDATE)
EPOCHS: tuple[dict[str, int | None], ...] = ({"a": 1, "b": 2}, {"a": 5}, {"b": None, "c": 7})
"""By epoch, the counts that it sets; None deletes."""


def write_log(folder: Path, *, described: bool = True) -> Path:
    """A checkpoint with the epochs, of one worker and two bins: `a` is in bin 0, the others in bin 1."""
    (rows,) = COUNT.stored()
    state = to_formats([rows.named(["word"], ["count"])]) if described else ()
    operator = OperatorFormat("0.stateStoreSave", "f", state=state)
    storage = open_storage(str(folder / "binshift"), {"durable": "false"})
    log = Log.on(storage, LogFormat(bins=2, query="q", operators=(operator,)))
    route = Route.initial(2, [Worker(0)])
    for epoch, counts in enumerate(EPOCHS):
        keys = prefixed(STATE_SPACE, RowCodec(KEYS).pack_columns([pa.array(list(counts), pa.string())], len(counts)))
        packed = RowCodec(BUFFERS, canonical=False).pack_columns([pa.array(counts.values(), pa.int64())], len(counts))
        values = [
            each.as_py() if count is not None else None for each, count in zip(packed, counts.values(), strict=True)
        ]
        changed = entries.sort(entries.make([int(key != "a") for key in counts], keys, values))
        append_delta(log, operator.name, epoch, changed, route)
    return folder


def counts_at(log: StateLog, epoch: int | None) -> dict[str, int]:
    """The groups at an epoch."""
    operator = log.operator(0)
    found = log.at(operator, log.rows_of(operator), None if epoch is None else Epoch(epoch))
    assert isinstance(found, StateRows)
    read = [row for bins in found.parts(2) for batch in found.read(log.storage, bins) for row in batch.to_pylist()]
    assert {row["key"]["word"]: row["partition_id"] for row in read} == {
        row["key"]["word"]: int(row["key"]["word"] != "a") for row in read
    }
    return {row["key"]["word"]: row["value"]["count"] for row in read}


def test_each_epoch_can_be_read(tmp_path: Path) -> None:
    """The state of an epoch is that of all changes up to it; an epoch that the log lacks is named (I4)."""
    log = StateLog.open(str(write_log(tmp_path)))
    assert [counts_at(log, epoch) for epoch in (0, 1, 2, None)] == [
        {"a": 1, "b": 2},
        {"a": 5, "b": 2},
        {"a": 5, "c": 7},
        {"a": 5, "c": 7},
    ]
    with pytest.raises(InvalidQuery, match="has the epochs 0 to 2, not 3"):
        counts_at(log, 3)
    with pytest.raises(InvalidQuery, match="no operator 1"):
        log.operator(1)
    with pytest.raises(ForeignLog, match="has no state of binshift"):
        StateLog.open(str(tmp_path / "nothing"))


def test_changes_are_the_deltas(tmp_path: Path) -> None:
    """Each change has its epoch; a deletion has the key and no value."""
    log = StateLog.open(str(write_log(tmp_path)))
    operator = log.operator(0)
    changes = log.changes(operator, log.rows_of(operator), Epoch(1))
    rows = [row for part in changes.parts(9) for batch in part.read(log.storage) for row in batch.to_pylist()]
    found = [(row["batch_id"], row["change_type"], row["key"]["word"], row["value"]) for row in rows]
    assert sorted(found, key=str) == [
        (1, "update", "a", {"count": 5}),
        (2, "delete", "b", None),
        (2, "update", "c", {"count": 7}),
    ]


def test_the_command_shows_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a table that states how to see more, as JSON by line, and as a file."""
    path = str(write_log(tmp_path))
    assert main([path, "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["partition_id", "key.word", "value.count"]
    assert lines[2].split() == ["0", "a", "5"]
    assert lines[3] == "the first 1 rows; --limit 0 shows all"
    assert main([path, "--output", "json", "--epoch", "0"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["key"], row["value"]) for row in rows] == [
        ({"word": "a"}, {"count": 1}),
        ({"word": "b"}, {"count": 2}),
    ]
    file = tmp_path / "rows.parquet"
    assert main([path, "--output", "parquet", "--to", str(file), "--changes", "2", "2"]) == 0
    assert pq.read_table(file).column("change_type").to_pylist() == ["delete", "update"]
    with pytest.raises(InvalidQuery, match="into the file --to"):
        main([path, "--output", "parquet"])


def test_a_log_without_schemas_is_shown_as_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is stated, and nothing is guessed."""
    assert main([str(write_log(tmp_path, described=False))]) == 0
    shown = capsys.readouterr().out
    assert "the log has no schemas: an earlier binshift wrote it" in shown
    assert "0x00" in shown
