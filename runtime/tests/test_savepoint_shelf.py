"""Requests for savepoints: one copied at a time, repeated requests, failures of storages, removal, and the end of the query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from awaiting import awaited
from savepoint_world import LOCATION, Query, Target

from binshift.errors import (
    InvalidSettings,
    NoQueryYet,
    NoSuchSnapshot,
    SnapshotRefused,
    StorageUnavailable,
)
from binshift.log.storage.opening import open_storage
from binshift.savepoints import layout, records, saving, shelf
from binshift.savepoints.shelf import Requested, SavepointState, Shelf


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what a copy's thread brings about."""
    awaited(condition, bool, 30)


class World:
    """A query, its shelf, and targets by location, whose copies wait while they are closed."""

    def __init__(self) -> None:
        self.query = Query(1)
        for _ in range(3):
            self.query.epoch()
        self.targets: dict[str, Target] = {}
        self.open = threading.Event()
        self.open.set()
        self.now = 100.0
        self.shelf = self.new_shelf()

    def new_shelf(self) -> Shelf:
        return Shelf(self.query.source(), self.target, lambda: self.now)

    def target(self, location: str) -> Target:
        return self.targets.setdefault(location, Target(before=lambda name: self.open.wait(30)))

    def ended(self, name: str) -> Requested:
        found = self.shelf.get(name)
        wait_until(lambda: found.ended)
        return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.open.set()
    made.shelf.close()


def test_a_request_is_copied(world: World) -> None:
    """It is pending or copying at first, and complete in the end, with its figures and times."""
    assert world.shelf.put("monday", "/backup").state in SavepointState
    done = world.ended("monday")
    assert (done.state, done.why, done.started_at, done.finished_at) == (SavepointState.COMPLETE, "", 100.0, 100.0)
    made = records.complete(world.targets["/backup"])
    assert made is not None
    progress = done.progress
    assert (progress.epoch, progress.files, progress.bytes) == (2, len(made.files), made.bytes)
    assert (progress.copied_files, progress.copied_bytes) == (progress.files, progress.bytes)
    assert world.shelf.put("monday", "file:///backup/") is done


def test_requests_wait_for_each_other(world: World) -> None:
    """One copy at a time; the others are pending in their order."""
    world.open.clear()
    for name in ("a", "b", "c"):
        world.shelf.put(name, f"/backup/{name}")
    wait_until(lambda: world.shelf.get("a").state is SavepointState.COPYING)
    assert [each.state for each in world.shelf.newest()[1:]] == [SavepointState.PENDING] * 2
    world.open.set()
    assert {world.ended(name).state for name in "abc"} == {SavepointState.COMPLETE}


def test_a_name_has_one_location(world: World) -> None:
    """The same name at another location is refused."""
    world.shelf.put("monday", "/backup/a")
    with pytest.raises(SnapshotRefused, match="/backup/a"):
        world.shelf.put("monday", "/backup/b")


def test_a_complete_one_is_known_after_a_restart(world: World) -> None:
    """The next driver's first answer is that it is complete."""
    world.shelf.put("monday", "/backup")
    world.ended("monday")
    world.query.restart()
    again = world.new_shelf()
    found = again.put("monday", "/backup")
    assert (found.state, found.progress.epoch) == (SavepointState.COMPLETE, 2)
    assert found.progress.copied_files == found.progress.files > 0


@pytest.mark.parametrize(
    "location", [LOCATION, f"{LOCATION}/x", "/", "hdfs://nn/x", f"file://{LOCATION}/binshift", "/other/..//checkpoint"]
)
def test_a_location_in_the_checkpoint_is_refused(world: World, location: str) -> None:
    """Nor can the checkpoint be in it, nor can it be where nothing is created atomically; for requests and for removals."""
    with pytest.raises(InvalidSettings):
        world.shelf.put("monday", location)
    with pytest.raises(InvalidSettings):
        world.shelf.remove("monday", location)
    assert world.targets == {}


def test_links_into_the_checkpoint_are_followed(tmp_path: Path) -> None:
    """A link to the checkpoint is the checkpoint."""
    query = Query(2)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "checkpoint")
    source = saving.Source(str(tmp_path / "checkpoint"), query.files, query.driver.log)
    with pytest.raises(InvalidSettings, match="inside"):
        Shelf(source).put("monday", str(tmp_path / "link" / "monday"))


def test_a_refused_location_fails_with_its_reason(world: World) -> None:
    """What is there stays, and the request has failed for good."""
    world.target("/backup").put("notes.txt", b"mine")
    world.shelf.put("monday", "/backup")
    failed = world.ended("monday")
    assert failed.state is SavepointState.FAILED
    assert "notes.txt" in failed.why
    assert failed.finished_at == 100.0
    assert world.shelf.put("monday", "/backup") is failed
    assert world.targets["/backup"].files == {"notes.txt": b"mine"}


def test_an_unavailable_storage_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reason is shown meanwhile; then the copy continues."""
    monkeypatch.setattr(saving, "RETRY_SECONDS", 0.2)
    failing, seen = threading.Event(), list[str]()
    failing.set()

    def fail(name: str) -> None:
        if name.startswith(layout.LOG) and failing.is_set():
            raise StorageUnavailable("the bucket does not answer")

    world.target("/backup").before = fail
    world.shelf.put("monday", "/backup")
    wait_until(lambda: world.shelf.get("monday").why != "")
    seen.append(world.shelf.get("monday").why)
    assert world.shelf.get("monday").state is SavepointState.COPYING
    failing.clear()
    done = world.ended("monday")
    assert (seen, done.state, done.why) == (["the bucket does not answer"], SavepointState.COMPLETE, "")


def test_a_storage_that_stays_unavailable_fails_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request ends."""
    monkeypatch.setattr(saving, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(saving, "RETRY_SECONDS_MAX", 0.001)

    def fail(name: str) -> None:
        raise StorageUnavailable("the bucket does not answer")

    world.target("/backup").before = fail
    world.shelf.put("monday", "/backup")
    assert world.ended("monday").why == "the bucket does not answer"
    world.query.collect()


def test_a_running_copy_is_removed(world: World) -> None:
    """A removal ends the copy, removes its files and forgets it; the files of the log are released."""
    written = threading.Event()
    world.open.clear()
    world.target("/backup").before = lambda name: name == layout.BEGUN or (written.set(), world.open.wait(30))
    world.shelf.put("monday", "/backup")
    assert written.wait(30)
    threading.Timer(0.1, world.open.set).start()
    world.shelf.remove("monday", None)
    assert world.targets["/backup"].files == {}
    with pytest.raises(NoSuchSnapshot):
        world.shelf.get("monday")
    with world.query.driver.log.hold():
        pass
    world.shelf.remove("monday", "/backup")


def test_a_pending_one_is_removed(world: World) -> None:
    """It is never copied."""
    world.open.clear()
    world.shelf.put("a", "/backup/a")
    world.shelf.put("b", "/backup/b")
    wait_until(lambda: world.shelf.get("a").state is SavepointState.COPYING)
    world.shelf.remove("b", "/backup/b")
    world.open.set()
    assert world.ended("a").state is SavepointState.COMPLETE
    assert world.targets["/backup/b"].files == {}


def test_a_removal_without_a_location_needs_a_known_name(world: World) -> None:
    """After a restart of the driver, the location must be named."""
    with pytest.raises(InvalidSettings, match="name its location"):
        world.shelf.remove("monday", None)


def test_a_removal_elsewhere_leaves_the_known_one(world: World) -> None:
    """Only the named location is touched."""
    world.shelf.put("monday", "/backup")
    world.ended("monday")
    world.shelf.remove("monday", "/elsewhere")
    assert world.shelf.get("monday").state is SavepointState.COMPLETE
    assert records.complete(world.targets["/backup"]) is not None


def test_the_end_of_the_query_leaves_it_pending(world: World) -> None:
    """An unfinished copy is not failed: the next driver finishes it with the same request."""
    written = threading.Event()
    world.open.clear()
    world.target("/backup").before = lambda name: name == layout.BEGUN or (written.set(), world.open.wait(30))
    world.shelf.put("monday", "/backup")
    assert written.wait(30)
    world.shelf.close()
    world.open.set()
    wait_until(lambda: world.shelf.get("monday").state is SavepointState.PENDING)
    assert "next driver" in world.shelf.get("monday").why
    with pytest.raises(NoQueryYet):
        world.shelf.put("tuesday", "/tuesday")
    world.query.restart()
    world.shelf = world.new_shelf()
    world.shelf.put("monday", "/backup")
    assert world.ended("monday").state is SavepointState.COMPLETE


def test_a_replaced_driver_leaves_it_pending(world: World) -> None:
    """A fenced driver reports who has taken over, and takes no request any more (I8)."""
    world.target("/backup").before = lambda name: name == layout.METADATA and world.query.restart()
    world.shelf.put("monday", "/backup")
    wait_until(lambda: "has taken over" in world.shelf.get("monday").why)
    assert world.shelf.get("monday").state is SavepointState.PENDING
    with pytest.raises(NoQueryYet):
        world.shelf.put("tuesday", "/tuesday")


def test_requests_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest that has ended is forgotten; if none has, another request is refused (I7)."""
    monkeypatch.setattr(shelf, "KEPT", 2)
    for name in ("a", "b", "c"):
        world.shelf.put(name, f"/backup/{name}")
        world.ended(name)
    assert [each.name for each in world.shelf.newest()] == ["b", "c"]
    world.open.clear()
    for name in ("d", "e"):
        world.shelf.put(name, f"/backup/{name}")
    with pytest.raises(SnapshotRefused, match="waiting"):
        world.shelf.put("f", "/backup/f")


def test_a_savepoint_on_disk(world: World, tmp_path: Path) -> None:
    """Through real files: complete, and removed without a rest."""
    real = Shelf(world.query.source(), open_storage)
    requested = real.put("monday", str(tmp_path / "backup"))
    wait_until(lambda: requested.ended)
    assert requested.state is SavepointState.COMPLETE, requested.why
    assert (tmp_path / "backup" / layout.DESCRIPTION).exists()
    (tmp_path / "backup" / "notes.txt").write_text("mine")
    real.remove("monday", str(tmp_path / "backup"))
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["notes.txt"]


def test_a_bug_fails_the_request(world: World) -> None:
    """No request stays unfinished because of an unexpected error."""

    def fail(name: str) -> None:
        raise ZeroDivisionError

    world.target("/backup").before = fail
    world.shelf.put("monday", "/backup")
    assert "ZeroDivisionError" in world.ended("monday").why
