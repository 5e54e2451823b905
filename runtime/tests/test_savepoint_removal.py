"""Removals of requested savepoints, whatever their copies do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from savepoint_shelf import World, opened_world, wait_until

from binshift.errors import InvalidSettings, NoSuchSnapshot
from binshift.log.storage.opening import open_storage
from binshift.savepoints import layout, records
from binshift.savepoints.shelf import Shelf
from binshift.savepoints.states import SavepointState


@pytest.fixture
def world() -> Iterator[World]:
    with opened_world() as made:
        yield made


def test_a_running_copy_is_removed(world: World) -> None:
    """A removal ends the copy, removes its files and forgets it; the files of the log are released."""
    world.begin("monday", "/backup")
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


def test_a_savepoint_on_disk(world: World, tmp_path: Path) -> None:
    """Through real files: complete, and removed without a rest."""
    real = Shelf(world.query.source(), open_storage)
    requested = real.put("monday", str(tmp_path / "backup"))
    wait_until(lambda: requested.ended)
    assert requested.state is SavepointState.COMPLETE, requested.why
    assert (tmp_path / "backup" / layout.DESCRIPTION).exists()
    (tmp_path / "backup" / "notes.txt").write_text("mine")
    real.remove("monday", str(tmp_path / "backup"))
    assert [each.name for each in (tmp_path / "backup").rglob("*")] == ["notes.txt"]
    (tmp_path / "backup" / "notes.txt").unlink()
    assert real.put("monday", str(tmp_path / "backup")).location
    wait_until(lambda: real.get("monday").ended)
    real.remove("monday", None)
    assert not (tmp_path / "backup").exists()
