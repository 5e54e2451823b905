"""An object store in Hadoop's view, over a local directory: a rename is a copy followed by a deletion, and nothing is atomic.

It implements what `binshift.spark.sinks.folders.Folders` calls of ``FileSystem``, ``Path`` and ``IOUtils``, with a failpoint
between copy and deletion. A single object appears atomically, as on S3.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JJavaError

from binshift import failpoints


class Missing(Py4JJavaError):  # type: ignore[misc]  # published without types
    """Java's FileNotFoundException."""

    def __init__(self, path: str) -> None:
        Exception.__init__(self, path)
        kind = "java.io.FileNotFoundException"
        self.java_exception = SimpleNamespace(
            getClass=lambda: SimpleNamespace(getName=lambda: kind), toString=lambda: f"{kind}: {path}"
        )


class FakeStore:
    """``FileSystem`` and the JVM in one object.

    Args:
        root: the directory of the objects.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.url = "s3a://bucket/results"
        hadoop = SimpleNamespace(
            fs=SimpleNamespace(Path=self._path),
            io=SimpleNamespace(IOUtils=SimpleNamespace(readFullyToByteArray=lambda stream: stream.read())),
        )
        self.org = SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop))

    def _path(self, url: str) -> Path:
        return self._root / url.removeprefix(self.url).removeprefix("/")

    def globStatus(self, pattern: Path) -> list[Any]:  # noqa: N802 (Hadoop's names)
        """Folders and files that match."""
        return [self._status(each) for each in pattern.parent.iterdir() if fnmatch.fnmatch(each.name, pattern.name)]

    def _status(self, path: Path) -> Any:
        url = f"{self.url}/{path.relative_to(self._root)}"
        named = SimpleNamespace(getName=lambda: path.name, toString=lambda: url)
        return SimpleNamespace(getPath=lambda: named, getLen=lambda: path.stat().st_size)

    def mkdirs(self, path: Path) -> None:
        """Folders are only names."""
        path.mkdir(parents=True, exist_ok=True)

    def delete(self, path: Path, recursive: bool) -> None:
        """Deletes object by object."""
        for each in self._objects(path):
            failpoints.reached("store.deleting")
            each.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)

    def _objects(self, path: Path) -> list[Path]:
        return sorted(each for each in path.rglob("*") if each.is_file())

    def rename(self, source: Path, target: Path) -> bool:
        """Renames one object."""
        if not source.exists():
            raise Missing(str(source))
        if target.exists():
            return False
        data = source.read_bytes()
        failpoints.reached("store.copying")
        self._put(target, data)
        failpoints.reached("store.copied")
        source.unlink(missing_ok=True)
        return True

    def _put(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = self._root.parent / f"part-{os.urandom(4).hex()}"
        part.write_bytes(data)
        part.replace(path)

    def open(self, path: Path) -> Any:
        """To read."""
        try:
            return path.open("rb")
        except FileNotFoundError:
            raise Missing(str(path)) from None

    def create(self, path: Path, overwrite: bool) -> Any:
        """A stream to write to; the object is visible once it is closed."""
        data = bytearray()
        return SimpleNamespace(write=data.extend, close=lambda: self._put(path, bytes(data)))

    def getFileStatus(self, path: Path) -> Any:  # noqa: N802
        """The status of one object."""
        if not path.exists():
            raise Missing(str(path))
        return self._status(path)

    def listFiles(self, path: Path, recursive: bool) -> Any:  # noqa: N802
        """A Java iterator."""
        if not path.exists():
            raise Missing(str(path))
        found: Iterator[Path] = iter(self._objects(path))
        left = list(found)
        return SimpleNamespace(hasNext=lambda: bool(left), next=lambda: self._status(left.pop(0)))
