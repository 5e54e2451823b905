"""The log on a file system: durable before visible, complete or absent, never outside its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from binshift.errors import InvalidSettings
from binshift.log.storage.contract import Storage
from binshift.log.storage.local_files import LocalStorage
from binshift.log.storage.opening import open_storage


def names(storage: Storage, prefix: str = "") -> list[str]:
    """The listed names."""
    return [each.name for each in storage.list(prefix)]


def test_a_killed_writer_leaves_no_file(tmp_path: Path) -> None:
    """A process that is killed while it writes leaves nothing under the final name, only a hidden part."""
    script = (
        "import sys; from binshift.log.storage.opening import open_storage\n"
        "upload = open_storage(sys.argv[1]).upload('deltas/1/x'); upload.write(b'half')\n"
        "print('written', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
    storage = open_storage(str(tmp_path))
    assert names(storage) == []
    assert [name.startswith(".partial/") for name in names(storage, ".partial/")] == [True]


@pytest.mark.parametrize("how", ["put", "put_if_absent", "upload"])
def test_local_writes_are_durable_before_they_are_visible(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes are fsynced before the file is renamed, and every folder with a new entry after it."""
    calls: list[str] = []
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append("fsync file" if path.is_file() else f"fsync {path.relative_to(tmp_path)}")
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    def named(real: Callable[..., object]) -> Callable[..., object]:
        def call(*paths: object) -> object:
            calls.append("name")
            return real(*paths)

        return call

    monkeypatch.setattr(os, "link", named(os.link))
    monkeypatch.setattr(Path, "replace", named(os.replace))
    writes: dict[str, Callable[[Storage], object]] = {
        "put": lambda storage: storage.put("deltas/7/x", b"data"),
        "put_if_absent": lambda storage: storage.put_if_absent("deltas/7/x", b"data"),
        "upload": _upload,
    }
    writes[how](LocalStorage(tmp_path / "log"))
    assert calls[:2] == ["fsync file", "name"]
    assert set(calls[2:]) >= {"fsync log/deltas/7", "fsync log/deltas", "fsync log"}
    calls.clear()
    writes[how](LocalStorage(tmp_path / "quick", durable=False))
    assert calls == ["name"]


def _upload(storage: Storage) -> None:
    upload = storage.upload("deltas/7/x")
    upload.write(b"data")
    upload.finish()


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where names cannot be created atomically, the error names the reason and the fix."""

    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(InvalidSettings, match="no hard links"):
        LocalStorage(tmp_path).put_if_absent("records/1", b"x")
    assert names(LocalStorage(tmp_path), ".partial/") == []


def test_a_folder_removed_meanwhile_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention may remove an empty folder just before a file is created in it."""
    storage, real = LocalStorage(tmp_path), LocalStorage._make_folders
    removed: list[Path] = []

    def make_folders(self: LocalStorage, folder: Path) -> object:
        made = real(self, folder)
        if not removed:
            removed.append(folder)
            folder.rmdir()
        return made

    monkeypatch.setattr(LocalStorage, "_make_folders", make_folders)
    assert storage.put_if_absent("deltas/7/x", b"data")
    assert storage.get("deltas/7/x") == b"data"
    assert removed


def test_names_cannot_leave_the_log(tmp_path: Path) -> None:
    """A name with ``..`` or an absolute one is a bug and reaches no file."""
    storage = LocalStorage(tmp_path / "log")
    for name in ("../x", "/etc/passwd", "a//b", ""):
        with pytest.raises(AssertionError, match="no name"):
            storage.put(name, b"x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
