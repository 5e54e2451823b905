"""Folders of results on a file system that the driver's own process can access: a disk, or a mounted file server.

It uses system calls instead of Java's file API, which reports an unreadable file as missing and an unreadable directory as
empty. Only the removal of leftovers depends on listing a directory. A folder is renamed as a whole, so readers see all of an
epoch or nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from binshift import diskerrors, failpoints
from binshift.errors import DiskFull, InvalidQuery, TaskFailed
from binshift.spark.sinks.manifest import FINISHED, Manifest, hidden, parsed

_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class LocalFolders:
    """See `binshift.spark.sinks.folders.Folders` for the contract of the methods.

    Args:
        root: the directory; it need not exist yet.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def url(self) -> str:
        """The location, for comparison and messages."""
        return self._root.as_uri()

    def names(self, pattern: str) -> list[str]:
        """See `Folders`."""
        with self._translate_errors(pattern):
            try:
                return fnmatch.filter(os.listdir(self._root), pattern)
            except FileNotFoundError:
                return []

    def make(self, folder: str) -> None:
        """See `Folders`."""
        with self._translate_errors(folder):
            (self._root / folder).mkdir(parents=True)

    def seal(self, manifest: Manifest) -> None:
        """See `Folders`. The files are durable before the manifest exists."""
        with self._translate_errors(manifest.folder):
            base = self._root / manifest.folder
            for size, name in manifest.files:
                _show(base / hidden(name), base / name, size)
            with (base / FINISHED).open("x") as file:
                file.write(manifest.text)
                file.flush()
                os.fsync(file.fileno())
            for folder in {base, *((base / name).parent for _, name in manifest.files)}:
                _sync(folder)

    def publish(self, folder: str, name: str) -> bool:
        """See `Folders`."""
        with self._translate_errors(name):
            if self.manifest(folder) is None:
                return self.manifest(folder, name) is not None
            failpoints.reached("publish.between")
            try:
                (self._root / folder).rename(self._root / name)
            except OSError as error:
                if self.manifest(folder, name) is not None:  # another driver has just done it
                    return True
                if error.errno in _IN_THE_WAY:
                    raise in_the_way(f"{self.url}/{name}") from None
                raise
            _sync(self._root)
            return True

    def manifest(self, folder: str, at: str = "") -> Manifest | None:
        """See `Folders`; ``at``: its name now, if it was renamed."""
        with self._translate_errors(at or folder):
            try:
                found = parsed((self._root / (at or folder) / FINISHED).read_text(errors="replace"))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return found if found is not None and found.folder == folder else None

    def release(self, manifest: Manifest) -> None:
        """See `Folders`."""
        failpoints.reached("publish.between")
        base = self._root / manifest.folder
        with self._translate_errors(manifest.folder):
            for size, name in manifest.files:
                (self._root / name).parent.mkdir(parents=True, exist_ok=True)
                _move(base / name, self._root / name, size)
                failpoints.reached("publish.file")
            for folder in {self._root, *((self._root / name).parent for _, name in manifest.files)}:
                _sync(folder)
        failpoints.reached("publish.moved")

    def keep(self, name: str) -> None:
        """See `Folders`."""
        with self._translate_errors(name):
            with (self._root / name).open("rb") as file:
                os.fsync(file.fileno())
            _sync((self._root / name).parent)

    def remove(self, name: str) -> None:
        """See `Folders`."""
        with self._translate_errors(name), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root / name)

    @contextlib.contextmanager
    def _translate_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise failed(f"{self._root}/{name}", error) from error


def failed(place: str, error: OSError) -> DiskFull | TaskFailed:
    """The error for results that could not be written or published."""
    if error.errno in diskerrors.FULL:
        return DiskFull(
            f"{place} has no room ({error.strerror}): free space there; nothing is lost, and the write is retried"
        )
    return TaskFailed(f"the results at {place} could not be written or published: {error}")


def in_the_way(place: str) -> InvalidQuery:
    """The error for an epoch's folder with files of another writer, or of a log that was replaced."""
    return InvalidQuery(
        f"{place} holds files that this query did not write there: move them away and start the query again, which writes "
        "the epoch again; or choose another directory"
    )


def _show(path: Path, shown: Path, size: int) -> None:
    """Rename a file, and Hadoop's checksums of it, to the name that readers see; it is complete and durable then."""
    path.rename(shown)
    with contextlib.suppress(FileNotFoundError):
        _checksums(path).rename(_checksums(shown))
    descriptor = os.open(shown, os.O_RDONLY)
    try:
        found = os.fstat(descriptor).st_size
        if found != size:
            raise OSError(f"{shown} has {found} bytes of the {size} that were written")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(path: Path, target: Path, size: int) -> None:
    """Rename a file, and Hadoop's checksums of it, unless another driver has done so."""
    for source, place in ((_checksums(path), _checksums(target)), (path, target)):
        with contextlib.suppress(FileNotFoundError):
            source.rename(place)
    if target.stat().st_size != size:
        raise OSError(f"{target} has {target.stat().st_size} bytes of the {size} that were written")


def _checksums(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
