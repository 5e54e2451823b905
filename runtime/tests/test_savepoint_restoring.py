"""Another query starts from a savepoint: its checkpoint gets all of it, or has no query yet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from log_drivers import Driver
from log_worlds import DictStorage
from savepoint_world import Query, Target, check

from binshift.errors import InvalidSettings
from binshift.log.storage.contract import Storage
from binshift.log.storage.folder import Folder
from binshift.log.storage.opening import open_storage
from binshift.savepoints import copying, layout, records
from binshift.savepoints.restoring import restore

NEW = "/new"


class Killed(Exception):
    """The process that restores has been killed."""


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are copied in order."""
    monkeypatch.setattr(copying, "FILES_AT_ONCE", 1)


@pytest.fixture
def query() -> Query:
    made = Query(1)
    for _ in range(7):
        made.epoch()
    return made


def saved(query: Query, place: Path, name: str = "monday") -> str:
    query.save(open_storage(str(place), {"durable": "false"}), name)
    return str(place)


def test_a_restored_query_continues_after_the_epoch(query: Query, tmp_path: Path) -> None:
    """It has every bin's rows, takes a new term and records the next epoch, while the first query continues (I5)."""
    place = saved(query, tmp_path / "backup")
    checkpoint = DictStorage()
    origin = restore(checkpoint, NEW, place, "clicks")
    assert origin is not None
    assert (origin.name, origin.epoch, origin.query) == ("monday", 6, "q-1")
    check(query, checkpoint, 6)
    new = Driver(Folder(checkpoint, layout.LOG), seed=9, states=query.world)
    assert new.log.term == query.driver.log.term + 2  # one opened the log to check it
    assert new.log.warnings == ()
    new.epochs(5)
    new.check()
    query.epoch()
    query.driver.check()


def test_a_checkpoint_with_a_query_is_left_alone(
    query: Query, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver that starts again with the same conf continues from its own checkpoint, whatever has become of the savepoint."""
    place = saved(query, tmp_path / "backup")
    checkpoint = DictStorage()
    restore(checkpoint, NEW, place, "clicks")
    (tmp_path / "backup" / layout.DESCRIPTION).unlink()
    before = dict(checkpoint.files)
    with caplog.at_level(logging.INFO):
        assert restore(checkpoint, NEW, place, "clicks") is None
    assert "has no effect" in caplog.text
    assert checkpoint.files == before


def test_a_killed_restore_is_finished_by_the_next_start(query: Query, tmp_path: Path) -> None:
    """Killed at any file, the checkpoint has no query yet; the next start copies only what is missing, Spark's metadata last."""
    place = saved(query, tmp_path / "backup")
    checkpoint = Target()
    written: list[str] = []

    def kill(name: str) -> None:
        if len(written) % 5 == 4:
            written.append("killed")
            raise Killed
        written.append(name)

    checkpoint.before = kill
    for _ in count():
        try:
            restore(checkpoint, NEW, place, "clicks")
            break
        except Killed:
            assert layout.METADATA not in checkpoint.files
    checkpoint.before = lambda name: None
    names = [each for each in written if each not in ("killed", layout.RESTORED)]
    assert names[-1] == layout.METADATA
    assert len(names) == len(set(names))
    check(query, checkpoint, 6)


def test_leftovers_of_another_savepoint_are_removed(query: Query, tmp_path: Path) -> None:
    """A start with another savepoint than the one that was interrupted begins with an empty checkpoint."""
    first = saved(query, tmp_path / "first")
    for _ in range(3):
        query.epoch()
    second = saved(query, tmp_path / "second", "tuesday")

    def kill(name: str) -> None:
        if name == layout.METADATA:
            raise Killed

    checkpoint = Target(before=kill)
    with pytest.raises(Killed):
        restore(checkpoint, NEW, first, "clicks")
    checkpoint.before = lambda name: None
    restore(checkpoint, NEW, second, "clicks")
    found = records.complete(open_storage(second))
    assert found is not None
    assert checkpoint.files.keys() - {layout.RESTORED} == {each.name for each in found.files}
    check(query, checkpoint, 9)


def test_a_program_restores_each_query_from_its_folder(query: Query, tmp_path: Path) -> None:
    """With several queries, each finds the folder with its name."""
    saved(query, tmp_path / "backup" / "clicks")
    checkpoint = DictStorage()
    assert restore(checkpoint, NEW, str(tmp_path / "backup"), "clicks") is not None
    with pytest.raises(InvalidSettings, match="it has none of the query 'visits'"):
        restore(DictStorage(), NEW, str(tmp_path / "backup"), "visits")


Spoil = Callable[[Storage], object]
SPOILT: list[tuple[str, Spoil, str]] = [
    ("nothing", lambda files: files.delete([each.name for each in files.list("")]), "it is empty"),
    (
        "checkpoint",
        lambda files: files.delete([layout.DESCRIPTION, layout.BEGUN]),
        "a checkpoint without snapshot.json",
    ),
    ("unfinished", lambda files: files.delete([layout.DESCRIPTION]), "the unfinished snapshot 'monday' of epoch 6"),
    ("missing", lambda files: files.delete(["offsets/6"]), "1 of its .* files are missing .* offsets/6"),
    ("cut off", lambda files: files.put("commits/6", b"v"), "1 of its .* files are missing or have another size"),
    ("altered", lambda files: files.put(layout.DESCRIPTION, b"{}"), "snapshot.json was altered"),
    ("version", lambda files: files.put(layout.DESCRIPTION, _newer(files)), "format 99"),
]


def _newer(files: Storage) -> bytes:
    from binshift.log.records.envelope import named_digest

    body = files.get(layout.DESCRIPTION).partition(b",")[2].replace(b'"format":4', b'"format":99')
    return b'{"checksum":"' + named_digest(layout.DESCRIPTION, body).encode() + b'",' + body


@pytest.mark.parametrize(("spoil", "message"), [each[1:] for each in SPOILT], ids=[each[0] for each in SPOILT])
def test_what_is_no_complete_savepoint_is_refused(query: Query, tmp_path: Path, spoil: Spoil, message: str) -> None:
    """The message has what was found; nothing was written."""
    place = saved(query, tmp_path / "backup")
    spoil(open_storage(place))
    checkpoint = DictStorage()
    with pytest.raises(InvalidSettings, match=message):
        restore(checkpoint, NEW, place, "clicks")
    assert checkpoint.files == {}


def test_a_checkpoint_with_other_files_is_refused(query: Query, tmp_path: Path) -> None:
    """A directory without a query that is not empty belongs to something else, or is a damaged checkpoint."""
    place = saved(query, tmp_path / "backup")
    checkpoint = DictStorage()
    checkpoint.put("binshift/format.json", b"{}")
    with pytest.raises(InvalidSettings, match=r"binshift/format\.json"):
        restore(checkpoint, NEW, place, "clicks")


@pytest.mark.parametrize("location", ["{}", "{}/new", "{}/.."])
def test_a_checkpoint_inside_its_savepoint_is_refused(query: Query, tmp_path: Path, location: str) -> None:
    """Neither can be inside the other."""
    place = saved(query, tmp_path / "a" / "backup")
    with pytest.raises(InvalidSettings, match="inside"):
        restore(DictStorage(), location.format(place), place, "clicks")
