"""Inspecting and verifying: the output is correct, every fault is found and named, and nothing is changed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from log_drivers import FORMAT, snapshot
from log_worlds import World

from binshift.errors import ForeignLog
from binshift.log.log import Log
from binshift.log.records.targets import Target
from binshift.log.storage import layout
from binshift.log.tools.inspect import describe, inspect, main, verify
from binshift.model import BinSet, Epoch, Worker


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of eight epochs with two manifests, snapshots, a target, and an orphan."""
    log = Log.open(str(tmp_path), {"durable": "false"}, FORMAT, who="test")
    world = World(log.storage, random.Random(6), term=log.term)
    world.index = log.index
    for epoch in range(8):
        if epoch == 4:
            world.snapshot_all()
        log.append(world.next_record())
        world.index = log.index
        if epoch in (2, 5):
            log.write_manifest(Epoch(epoch))
            world.manifest = epoch
    log.targets.write(
        Target(owner="me", generation=3, workers=(0, 1), strategy="fluid", batch_size=1, pre_copy=True), after=0
    )
    log.storage.put(layout.delta_name(Epoch(6), "count", Worker(0), "1.6.9.lost"), b"12345")
    return tmp_path


def test_inspect_describes_the_log(root: Path) -> None:
    """The summary has the epochs, the route, the files by kind, the snapshots' ages, the orphans and the target."""
    before = snapshot(root)
    summary = inspect(str(root))
    assert (summary.epoch, summary.term, summary.query, summary.bins) == (7, 1, "q-1", 16)
    assert sum(summary.worker_bins.values()) == 16
    assert (summary.files["records"].count, summary.files["manifests"].count) == (8, 2)
    assert summary.files["deltas"].bytes == sum(
        len(data) for name, data in before.items() if name.startswith(layout.DELTAS)
    )
    ages = summary.snapshot_ages["count"]
    assert ages.never == 0
    assert ages.oldest is not None
    assert 4 <= ages.oldest <= 7
    assert summary.floor == 7 - ages.oldest
    assert (summary.orphan_count, summary.orphan_bytes) == (1, 5)
    assert summary.target is not None
    assert summary.target.generation == 3
    assert summary.warnings == ()
    assert "epoch      7" in describe(summary)
    assert snapshot(root) == before


def test_a_whole_log_has_no_findings(root: Path) -> None:
    """Verifying an intact log finds nothing, and changes nothing."""
    before = snapshot(root)
    assert verify(str(root)) == []
    assert snapshot(root) == before


def needed(root: Path) -> list[str]:
    """A file of each kind that the log needs."""
    log = Log.open(str(root), {"durable": "false"}, FORMAT)
    every = BinSet(range(FORMAT.bins))
    plans = [log.index.sources(operator, every, {}, log.index.last) for operator in FORMAT.operator_names]
    return [
        next(part.file.name for plan in plans for part in plan.snapshots),
        next(part.file.name for plan in plans for part in plan.deltas),
        layout.record_name(Epoch(7)),
        layout.manifest_name(Epoch(5)),
        layout.manifest_name(Epoch(2)),
        layout.FORMAT,
        layout.target_name(1),
        layout.term_name(log.term),
    ]


@pytest.mark.parametrize("which", range(8))
@pytest.mark.parametrize("damage", ["flipped", "truncated"])
def test_every_damage_is_found_and_named(which: int, damage: str, root: Path) -> None:
    """A flipped bit in the middle of a file of any kind, or a loss of a few bytes, is found, and the file is named."""
    name = needed(root)[which]
    data = (root / name).read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
    (root / name).write_bytes(flipped if damage == "flipped" else data[:-3])
    found = verify(str(root))
    assert name in [each.name for each in found]
    assert {each.fault for each in found} == {"damaged"}
    if name.endswith(".arrow"):
        assert all(each.bins > 0 for each in found if each.name == name)


@pytest.mark.parametrize("which", [0, 1, 3, 4, 5])
def test_every_loss_is_found_and_named(which: int, root: Path) -> None:
    """A missing data file, manifest or format file is found, and the file is named."""
    name = needed(root)[which]
    (root / name).unlink()
    found = verify(str(root))
    assert [each.name for each in found] == [name]
    assert found[0].fault in ("missing", "damaged")


def test_a_lost_record_is_found(root: Path) -> None:
    """A record missing in the middle is named; one missing at the end is, as soon as the next epoch left a delta."""
    (root / layout.record_name(Epoch(6))).unlink()
    assert [(each.fault, each.name) for each in verify(str(root))] == [("missing", layout.record_name(Epoch(6)))]
    (root / layout.record_name(Epoch(7))).unlink()
    assert [(each.fault, each.name) for each in verify(str(root))] == [("missing", layout.record_name(Epoch(6)))]


def test_foreign_files_are_found(root: Path) -> None:
    """A file with a name that the log never uses is reported, and the log works nevertheless."""
    (root / "deltas" / "notes.txt").write_text("hello")
    assert [(each.fault, each.name) for each in verify(str(root))] == [("foreign", "deltas/notes.txt")]
    assert inspect(str(root)).files["foreign"].count == 1


def test_where_there_is_no_log(tmp_path: Path) -> None:
    """An empty or missing folder is not a log, and inspecting it does not create one."""
    with pytest.raises(ForeignLog, match="no log"):
        inspect(str(tmp_path / "gone"))
    assert [each.fault for each in verify(str(tmp_path / "gone"))] == ["missing"]
    assert list(tmp_path.iterdir()) == []


def test_the_command_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints text or JSON, and its exit status shows whether the log is intact."""
    assert main(["inspect", str(root)]) == 0
    assert "orphans    1" in capsys.readouterr().out
    assert main(["inspect", str(root), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["epoch"] == 7
    assert main(["verify", str(root)]) == 0
    assert "nothing wrong" in capsys.readouterr().out
    (root / layout.record_name(Epoch(3))).unlink()
    (root / layout.manifest_name(Epoch(5))).write_bytes(b"{}")
    assert main(["verify", str(root), "--output", "json"]) == 1
    assert {each["name"] for each in json.loads(capsys.readouterr().out)} == {
        layout.record_name(Epoch(3)),
        layout.manifest_name(Epoch(5)),
    }
    assert main(["inspect", str(root)]) == 1
    assert "LogDamaged: records/00000000000000000003.json is missing" in capsys.readouterr().out
    assert main(["inspect", str(root), "--output", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["error"], found["file"], found["epoch"]) == ("LogDamaged", "records/00000000000000000003.json", 3)
    assert main(["inspect", str(root), "--option", "durable=maybe"]) == 1
