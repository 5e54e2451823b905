"""Whose a savepoint is: a restored query keeps its id, and its savepoints are not those of the first query."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_drivers import Driver
from log_worlds import DictStorage
from savepoint_world import Query, Target

from binshift.errors import InvalidSettings, SnapshotRefused
from binshift.log.storage.folder import Folder
from binshift.log.storage.opening import open_storage
from binshift.savepoints import layout, records, removing
from binshift.savepoints.restoring import check_begin, checkpoint_id, restore


@pytest.fixture
def query() -> Query:
    made = Query(21)
    for _ in range(5):
        made.epoch()
    return made


@pytest.fixture
def restored(query: Query, tmp_path: Path) -> DictStorage:
    """A checkpoint made of a savepoint of the query."""
    place = tmp_path / "backup"
    query.save(open_storage(str(place), {"durable": "false"}))
    checkpoint = DictStorage()
    assert restore(checkpoint, "/new", str(place), "clicks") is not None
    return checkpoint


def test_a_restored_checkpoint_has_an_id_of_its_own(query: Query, restored: DictStorage) -> None:
    """It stays the same, and the query's id is kept."""
    first = query.driver.log.format.query
    own = checkpoint_id(restored, first)
    assert own not in ("", first)
    assert checkpoint_id(restored, first) == own
    assert checkpoint_id(query.files, first) == first


def test_a_restored_query_has_no_part_in_the_first_ones_savepoints(query: Query, restored: DictStorage) -> None:
    """It neither takes over a savepoint of the same name, complete or begun, nor removes it."""
    target = Target()
    query.save(target)
    clone = Query(21)
    for _ in range(5):
        clone.epoch()
    clone.files.put(layout.RESTORED, restored.get(layout.RESTORED))
    for gone in ([], [layout.DESCRIPTION]):
        target.delete(gone)
        before = dict(target.files)
        with pytest.raises(SnapshotRefused, match="monday"):
            clone.save(target)
        with pytest.raises(SnapshotRefused, match="another checkpoint"):
            removing.remove(target, "monday", clone.source().checkpoint)
        assert target.files == before
    assert records.begun(target) is not None


def test_a_checkpoint_that_is_half_restored_begins_no_query(restored: DictStorage) -> None:
    """Without the setting it would begin without state."""
    check_begin(restored)
    restored.delete([layout.METADATA])
    with pytest.raises(InvalidSettings, match=r"set binshift\.restoreFrom again"):
        check_begin(restored)


def test_a_lost_file_clears_no_state(query: Query, restored: DictStorage, tmp_path: Path) -> None:
    """A checkpoint that has run since it was restored is not replaced by another savepoint."""
    Driver(Folder(restored, layout.LOG), seed=9, states=query.world).epochs(2)
    restored.delete([layout.METADATA])
    query.epoch()
    query.save(open_storage(str(tmp_path / "newer"), {"durable": "false"}), "newer")
    before = dict(restored.files)
    with pytest.raises(InvalidSettings, match="has epochs after 4"):
        restore(restored, "/new", str(tmp_path / "newer"), "clicks")
    assert restored.files == before


def test_a_savepoint_is_no_checkpoint(query: Query) -> None:
    """A query that ran on it would change what its description names."""
    target = Target()
    query.save(target)
    with pytest.raises(InvalidSettings, match="is a snapshot"):
        check_begin(target)


def test_a_removal_leaves_other_folders(query: Query, tmp_path: Path) -> None:
    """Where there is no savepoint, nothing changes; next to one, empty folders of others stay."""
    elsewhere = tmp_path / "elsewhere" / "binshift" / ".partial"
    elsewhere.mkdir(parents=True)
    identity = query.source().checkpoint
    removing.remove(open_storage(str(tmp_path / "elsewhere")), "monday", identity)
    assert elsewhere.exists()
    query.save(open_storage(str(tmp_path / "backup"), {"durable": "false"}))
    (tmp_path / "backup" / "mine").mkdir()
    removing.remove(open_storage(str(tmp_path / "backup")), "monday", identity)
    assert [each.name for each in (tmp_path / "backup").iterdir()] == ["mine"]


def test_a_rewritten_file_lets_the_copy_begin_again(query: Query) -> None:
    """A manifest can be written again by the next driver, with another size."""
    target = Target()
    query.save(target)
    names = [each.name for each in target.list("") if each.name.startswith(f"{layout.LOG}manifests/")]
    target.delete([layout.DESCRIPTION, *names])
    for name in names:
        own = name.removeprefix(layout.LOG)
        query.log_files.put(own, query.log_files.get(own) + b" ")
    made = query.save(target)
    assert records.complete(target) == made
