"""Result folders without an atomic rename: the manifest is written once, and an incomplete one does not count."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hadoop_store import FakeStore

from binshift.errors import StorageUnavailable
from binshift.spark.sinks.folders import Folders
from binshift.spark.sinks.manifest import FINISHED, Manifest

STAGED, NAME = "_staged-0-a", "epoch=0"
MANIFEST = Manifest(STAGED, ((4, "part-0"),))


class Store(FakeStore):
    """Records the created files."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.created: list[str] = []

    def create(self, path: Path, overwrite: bool) -> Any:
        """See `FakeStore`."""
        self.created.append(str(path.relative_to(self._root)))
        return super().create(path, overwrite)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a folder that a run has staged and sealed."""
    made = Store(tmp_path / "results")
    folders(made).make(STAGED)
    (tmp_path / "results" / STAGED / ".part-0").write_bytes(b"1234")
    folders(made).seal(MANIFEST)
    shutil.copytree(tmp_path / "results" / STAGED, tmp_path / "again")
    return made


def folders(store: Store) -> Folders:
    """The directory, opened by another driver."""
    session: Any = SimpleNamespace(_jvm=store)
    return Folders(session, store, store.url)


def test_a_manifest_that_is_there_is_not_written_again(store: Store, tmp_path: Path) -> None:
    """If a driver ended between the manifest and its cleanup, the epoch is published again: no file changes for readers."""
    assert folders(store).publish(STAGED, NAME)
    shutil.copytree(tmp_path / "again", tmp_path / "results" / STAGED)
    assert folders(store).publish(STAGED, NAME)
    assert folders(store).publish(STAGED, NAME)
    assert store.created.count(f"{NAME}/{FINISHED}") == 1
    assert [path.name for path in (tmp_path / "results").iterdir()] == [NAME]


def test_a_manifest_that_another_driver_has_just_written_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest did not exist when this driver began, and exists when it has moved the files."""
    move, mine = Folders._move, folders(store)

    def moved_by_both(self: Folders, folder: str, name: str, file: tuple[int, str]) -> None:
        monkeypatch.setattr(Folders, "_move", move)
        assert folders(store).publish(folder, name)
        move(self, folder, name, file)

    monkeypatch.setattr(Folders, "_move", moved_by_both)
    assert mine.publish(STAGED, NAME)
    assert store.created.count(f"{NAME}/{FINISHED}") == 1


def test_a_part_of_a_manifest_is_tried_again(store: Store, tmp_path: Path) -> None:
    """The owner of the epoch is unknown while another driver writes the manifest; that of a dead driver is completed from its files."""
    assert folders(store).publish(STAGED, NAME)
    manifest = tmp_path / "results" / NAME / FINISHED
    manifest.write_text(MANIFEST.text[:20])
    with pytest.raises(StorageUnavailable, match=f"{NAME}/{FINISHED} is not a complete list of files"):
        folders(store).publish(STAGED, NAME)
    shutil.copytree(tmp_path / "again", tmp_path / "results" / STAGED)
    assert folders(store).publish(STAGED, NAME)
    assert manifest.read_text() == MANIFEST.text
