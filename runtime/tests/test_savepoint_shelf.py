"""Requests for savepoints: one copied at a time, repeated requests, failures of storages, removal, and the end of the query."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from savepoint_shelf import World, opened_world, wait_until
from savepoint_world import LOCATION, Query

from binshift.errors import (
    InvalidSettings,
    NoQueryYet,
    SnapshotRefused,
    StorageUnavailable,
)
from binshift.savepoints import layout, records, saving, shelf
from binshift.savepoints.planning import Source
from binshift.savepoints.shelf import Shelf
from binshift.savepoints.states import SavepointState


@pytest.fixture
def world() -> Iterator[World]:
    with opened_world() as made:
        yield made


def test_a_request_is_copied(world: World) -> None:
    """It is pending or copying at first, and complete in the end, with its figures and times."""
    assert world.shelf.put("monday", "/backup").state in SavepointState
    done = world.ended("monday")
    made = records.complete(world.targets["/backup"])
    assert made is not None
    times = done.started_at, done.finished_at
    assert (done.state, done.why, *times) == (SavepointState.COMPLETE, "", 100.0, made.finished_ms / 1000)
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
    """The next driver's first answer is that it is complete, and since when."""
    world.shelf.put("monday", "/backup")
    first = world.ended("monday").finished_at
    world.query.restart()
    again = world.new_shelf()
    found = again.put("monday", "/backup")
    assert (found.state, found.progress.epoch, found.finished_at) == (SavepointState.COMPLETE, 2, first)
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
    source = Source(str(tmp_path / "checkpoint"), query.files, query.driver.log, query.driver.log.format.query)
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


def test_the_end_of_the_query_leaves_it_pending(world: World) -> None:
    """An unfinished copy is not failed: the next driver finishes it with the same request."""
    world.begin("monday", "/backup")
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

    def replace(name: str) -> None:
        if name == layout.METADATA:
            world.query.restart()

    world.target("/backup").before = replace
    world.shelf.put("monday", "/backup")
    wait_until(lambda: "has taken over" in world.shelf.get("monday").why)
    assert world.shelf.get("monday").state is SavepointState.PENDING
    with pytest.raises(NoQueryYet):
        world.shelf.put("tuesday", "/tuesday")


def test_requests_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest that has ended is forgotten; if none has, another request stays pending until one has, and is not remembered (I7)."""
    monkeypatch.setattr(shelf, "KEPT", 2)
    for name in ("a", "b", "c"):
        world.shelf.put(name, f"/backup/{name}")
        world.ended(name)
    assert [each.name for each in world.shelf.newest()] == ["b", "c"]
    world.open.clear()
    for name in ("d", "e"):
        world.shelf.put(name, f"/backup/{name}")
    waiting = world.shelf.put("f", "/backup/f")
    assert (waiting.state, waiting.why) == (
        SavepointState.PENDING,
        "2 other snapshots are waiting: repeat the request until some are complete",
    )
    assert [each.name for each in world.shelf.newest()] == ["d", "e"]
    world.open.set()
    world.ended("d")
    world.shelf.put("f", "/backup/f")
    assert world.ended("f").state is SavepointState.COMPLETE


def test_a_bug_fails_the_request(world: World) -> None:
    """No request stays unfinished because of an unexpected error."""

    def fail(name: str) -> None:
        raise ZeroDivisionError

    world.target("/backup").before = fail
    world.shelf.put("monday", "/backup")
    assert "ZeroDivisionError" in world.ended("monday").why
