"""Where a savepoint can be written, how it is removed, and how a file is copied."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_worlds import DictStorage
from savepoint_world import Query, Target, check

from binshift.errors import LogDamaged, SnapshotRefused
from binshift.log.storage import layout as log_layout
from binshift.log.storage.opening import open_storage
from binshift.model import BEFORE_FIRST, Epoch
from binshift.savepoints import copying, layout, removing


@pytest.mark.parametrize("there", ["notes.txt", layout.METADATA, "offsets/0"])
def test_a_place_with_other_files_is_refused(there: str) -> None:
    """The message has the file; it stays."""
    query = Query(9)
    query.epoch()
    target = Target()
    target.put(there, b"x")
    with pytest.raises(SnapshotRefused, match=there):
        query.save(target)
    assert target.files == {there: b"x"}


@pytest.mark.parametrize("finished", [True, False])
def test_another_savepoint_is_not_replaced(finished: bool) -> None:
    """One of another name, complete or not, is refused by its name."""
    query = Query(10)
    query.epoch()
    target = Target()
    query.save(target, "sunday")
    if not finished:
        target.delete([layout.DESCRIPTION])
    with pytest.raises(SnapshotRefused, match="sunday"):
        query.save(target, "monday")


def test_a_complete_savepoint_is_not_written_again() -> None:
    """The same request finds it, at its epoch."""
    query = Query(11)
    query.epoch()
    target = Target()
    made = query.save(target)
    query.epoch()
    before = dict(target.files)
    assert query.save(target) == made
    assert target.files == before


def test_a_savepoint_that_lost_a_file_is_made_again() -> None:
    """A repeated request repairs it: the file is copied if it exists, and otherwise a newer epoch."""
    query = Query(12)
    for _ in range(3):
        query.epoch()
    target = Target()
    made = query.save(target)
    lost = next(each.name for each in made.files if each.name.startswith(layout.LOG + log_layout.DELTAS))
    target.delete([lost])
    assert query.save(target) == made
    assert lost in target.files


def test_a_checkpoint_with_a_missing_file_gives_no_savepoint() -> None:
    """The copy begins again some times; then it fails with the name of the file."""
    query = Query(13, grace=1e9)
    for _ in range(3):
        query.epoch()
    lost = next(name for name in query.log_files.files if name.startswith(log_layout.DELTAS))
    query.log_files.delete([lost])
    with pytest.raises(LogDamaged, match=lost):
        query.save(Target())
    assert query.driver.log._held == BEFORE_FIRST


def test_a_removal_takes_the_description_first_and_the_mark_last() -> None:
    """Interrupted at any file, it is no savepoint any more, and the same call finishes; other files stay."""
    query = Query(14)
    query.epoch()
    target = Target()
    query.save(target)
    target.put("notes.txt", b"mine")
    deleted: list[str] = []

    def delete(names: list[str]) -> None:
        deleted.extend(names)
        DictStorage.delete(target, names)

    target.delete = delete  # type: ignore[method-assign, assignment]
    removing.remove(target, "monday", query.driver.log.format.query)
    assert (deleted[0], deleted[-1]) == (layout.DESCRIPTION, layout.BEGUN)
    assert target.files == {"notes.txt": b"mine"}
    removing.remove(target, "monday", query.driver.log.format.query)


def test_a_removal_of_another_name_removes_nothing() -> None:
    """The name is compared with both descriptions."""
    query = Query(15)
    query.epoch()
    target = Target()
    query.save(target)
    before = dict(target.files)
    for gone in ([], [layout.DESCRIPTION]):
        target.delete(gone)
        with pytest.raises(SnapshotRefused, match="monday"):
            removing.remove(target, "sunday", query.driver.log.format.query)
    assert len(target.files) == len(before) - 1


@pytest.mark.parametrize("kind", ["directory", "object store"])
def test_every_store_can_have_a_savepoint(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written in parts, opens there, and is removed."""
    monkeypatch.setattr(copying, "PART_BYTES", 512)
    query = Query(17)
    for _ in range(6):
        query.epoch()
    target = open_storage(str(tmp_path) if kind == "directory" else f"memory://{tmp_path.name}")
    made = query.save(target)
    assert max(each.bytes for each in made.files) > 2 * 512
    check(query, target, made.epoch)
    assert query.save(target) == made
    target.delete(
        [each.name for each in target.list("") if not layout.belongs(each.name) and "snapshot" not in each.name]
    )
    removing.remove(target, "monday", query.driver.log.format.query)
    assert [each.name for each in target.list("") if "probes" not in each.name] == []


def test_large_files_are_copied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts are read one after the other, and never the whole file."""
    monkeypatch.setattr(copying, "PART_BYTES", 10)
    source, target = DictStorage(), DictStorage()
    source.put("large", bytes(range(35)))
    copying.copy_file(source, "large", 35, target, "copy", copying.Pace())
    assert target.files == {"copy": bytes(range(35))}
    assert source.read == [("large", (0, 10)), ("large", (10, 20)), ("large", (20, 30)), ("large", (30, 35))]


def test_epochs_are_held_one_copy_at_a_time() -> None:
    """A hold ends with its block, and a second one meanwhile is a bug."""
    query = Query(16)
    query.epoch()
    log = query.driver.log
    with log.hold(Epoch(0)) as index:
        assert index is log.index
        with pytest.raises(AssertionError), log.hold():
            pass
    with log.hold():
        pass
