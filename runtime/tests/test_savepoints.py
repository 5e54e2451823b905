"""A savepoint is complete and of one epoch, whatever the query does while it is copied."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_worlds import DictStorage
from savepoint_world import Query, Target, check, findings

from binshift.errors import Fenced, LogDamaged, SnapshotRefused
from binshift.log.storage import layout as log_layout
from binshift.model import BEFORE_FIRST, Epoch
from binshift.savepoints import copying, layout, records, removing
from binshift.savepoints.copying import CopyStopped

SEEDS = st.integers(0, 10**6)


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are copied in order, so that a seed is one history."""
    monkeypatch.setattr(copying, "FILES_AT_ONCE", 1)


class Interrupted(Exception):
    """The process that copies has been killed."""


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, before=st.integers(1, 14), share=st.sampled_from([0.03, 0.1, 0.5]))
def test_a_copy_has_every_bin_as_of_its_epoch(seed: int, before: int, share: float) -> None:
    """Epochs, moves, snapshots, manifests and collections continue while it is copied: it opens, and has that epoch's rows (I4)."""
    query = Query(seed)
    for _ in range(before):
        query.epoch()

    def another(name: str) -> None:
        if query.rng.random() < share and name != layout.DESCRIPTION:
            query.epoch()

    target = Target(before=another)
    made = query.save(target)
    assert made.epoch >= before - 1
    assert findings(target) == []
    check(query, target, made.epoch)
    batches = [layout.batch_of(name) for name in target.files]
    assert max(each for each in batches if each is not None) == made.epoch
    assert f"offsets/{made.epoch}" in target.files
    assert any(layout.is_source(name) for name in target.files)
    assert query.driver.log._held == BEFORE_FIRST


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, deaths=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 12)), min_size=1, max_size=3))
def test_a_killed_copy_is_finished_by_the_next_driver(seed: int, deaths: list[tuple[int, int]]) -> None:
    """Killed at any file, any number of epochs ago: the same request gives a complete savepoint, of the same epoch or a newer one."""
    query = Query(seed)
    for _ in range(6):
        query.epoch()
    target = Target()
    for files, epochs in deaths:
        left = iter(range(files))

        def kill(_: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Interrupted

        target.before = kill
        try:
            query.save(target)
        except Interrupted:
            query.restart()
            for _ in range(epochs):
                query.epoch()
    target.before = lambda name: None
    made = query.save(target)
    assert findings(target) == []
    check(query, target, made.epoch)


def test_an_unfinished_copy_keeps_its_epoch_while_its_files_exist() -> None:
    """What is there already is not copied a second time."""
    query = Query(3)
    for _ in range(6):
        query.epoch()
    target = Target()
    done: list[str] = []

    def kill(name: str) -> None:
        if len(done) == 12:
            raise Interrupted
        done.append(name)

    target.before = kill
    with pytest.raises(Interrupted):
        query.save(target)
    query.restart()
    again: list[str] = []
    target.before = again.append
    assert query.save(target).epoch == 5
    assert not set(again) & set(done)


def test_a_copy_whose_epoch_is_gone_begins_again() -> None:
    """Nothing of the first epoch's files stays, except what belongs to the second as well."""
    query = Query(4)
    for _ in range(4):
        query.epoch()
    target = Target()

    def kill(name: str) -> None:
        if name.startswith(layout.LOG):
            raise Interrupted

    target.before = kill
    with pytest.raises(Interrupted):
        query.save(target)
    query.restart()
    for _ in range(30):
        query.epoch()
    target.before = lambda name: None
    made = query.save(target)
    assert made.epoch == 33
    assert {name for name in target.files if layout.belongs(name)} == {each.name for each in made.files}


def test_files_are_held_until_the_copy_ends() -> None:
    """While it is copied, no file that it needs is deleted; afterwards they go (I7)."""
    query = Query(5)
    for _ in range(6):
        query.epoch()
    waited = iter(range(25))
    target = Target(before=lambda name: next(waited, None) is not None and query.epoch())
    made = query.save(target)
    kept = {each.name.removeprefix(layout.LOG) for each in made.files if each.name.startswith(layout.LOG)}
    data = {name for name in kept if name.startswith((log_layout.DELTAS, log_layout.SNAPSHOTS))}
    assert data <= query.driver.storage.files.keys()
    query.collect()
    assert not data & query.driver.storage.files.keys()


def test_a_failed_copy_holds_nothing() -> None:
    """An error, or a request to stop, releases the files."""
    query = Query(6)
    query.epoch()
    stop = threading.Event()
    target = Target(before=lambda name: name.startswith(layout.LOG) and stop.set())
    with pytest.raises(CopyStopped):
        query.save(target, stop=stop)
    assert query.driver.log._held == BEFORE_FIRST
    assert records.begun(target) is not None
    assert records.complete(target) is None


def test_a_replaced_driver_describes_nothing() -> None:
    """A newer driver has opened the log: the older one's copy ends without a description (I8)."""
    query = Query(7)
    query.epoch()
    old, target = query.source(), Target(before=lambda name: name == layout.METADATA and query.restart())
    with pytest.raises(Fenced):
        query.save(target)
    assert old.log.term < query.driver.log.term
    assert records.complete(target) is None
    assert query.save(target).epoch == 0


def test_an_epoch_without_sparks_commit_is_not_copied() -> None:
    """The copy waits until Spark has committed the recorded epoch."""
    query = Query(8)
    query.epoch()
    query.files.delete(["commits/0"])
    stop = threading.Event()
    waits = iter(range(3))
    exists = query.files.exists
    query.files.exists = lambda name: stop.set() or exists(name) if next(waits, None) is None else exists(name)  # type: ignore[method-assign]
    target = Target()
    with pytest.raises(CopyStopped):
        query.save(target, stop=stop)
    assert target.files == {}
    query.files.put("commits/0", b"v1")
    assert query.save(target).epoch == 0


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
    lost = next(name for name in query.driver.storage.files if name.startswith(log_layout.DELTAS))
    query.driver.storage.delete([lost])
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
    removing.remove(target, "monday")
    assert (deleted[0], deleted[-1]) == (layout.DESCRIPTION, layout.BEGUN)
    assert target.files == {"notes.txt": b"mine"}
    removing.remove(target, "monday")


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
            removing.remove(target, "sunday")
    assert len(target.files) == len(before) - 1


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
