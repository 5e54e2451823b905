"""Spark's own logs show which files an epoch read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binshift.errors import LogDamaged
from binshift.model import Epoch
from flights_demo.consumed import Consumed, source_entry
from flights_demo.replay import file_name


def _offsets(checkpoint: Path, epoch: int, entry: str) -> None:
    (checkpoint / "offsets").mkdir(exist_ok=True)
    (checkpoint / "offsets" / str(epoch)).write_text(
        f'v1\n{{"batchTimestampMs":1,"conf":{{}}}}\n{entry}\n{{"value":3}}'
    )


def _entry(checkpoint: Path, name: str, files: list[tuple[int, int]]) -> None:
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"path": f"file:///data/{file_name(file)}", "timestamp": 7, "batchId": entry})
        for entry, file in files
    ]
    (folder / name).write_text("\n".join(["v1", *lines]))


def test_files_of_each_epoch(tmp_path: Path) -> None:
    """An epoch read the entries after those of the previous epoch; a compacted entry counts its own entries only."""
    _entry(tmp_path, "0", [(0, 0)])
    _entry(tmp_path, "1", [(1, 1), (1, 2)])
    _entry(tmp_path, "2.compact", [(0, 0), (1, 1), (1, 2), (2, 3)])
    _offsets(tmp_path, 0, '{"logOffset":0}')
    _offsets(tmp_path, 1, '{"logOffset":0}')
    _offsets(tmp_path, 2, '{"logOffset":2}')
    consumed = Consumed(tmp_path)
    assert [consumed.files(Epoch(epoch)) for epoch in range(3)] == [[0], [], [1, 2, 3]]


def test_no_entry_yet(tmp_path: Path) -> None:
    """An epoch before the first file read nothing."""
    _offsets(tmp_path, 0, "-")
    assert Consumed(tmp_path).files(Epoch(0)) == []
    assert source_entry("v1\n{}\n-\n-") == -1


def test_missing_logs_are_named(tmp_path: Path) -> None:
    """A missing log entry is an error that names it, not an epoch without rows."""
    with pytest.raises(LogDamaged, match="offsets/4"):
        Consumed(tmp_path).files(Epoch(4))
    _offsets(tmp_path, 5, '{"logOffset":0}')
    with pytest.raises(LogDamaged, match="offsets/5"):
        Consumed(tmp_path).files(Epoch(5))
