"""Folders of results on any file system that Spark writes to, through Hadoop's ``FileSystem``.

A run's files are staged in a folder of their own, which is `sealed <Folders.seal>` with a manifest and then published under
its epoch's name. On an object store a folder cannot be renamed atomically, so files are moved one by one, by their names.
Several drivers may do this at the same time, and another may resume it: all of them move the same files, since one folder was
chosen, and a file that is missing at its source is already at its destination.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from binshift import failpoints
from binshift.errors import DiskFull, StorageUnavailable
from binshift.spark.session.failures import FULL
from binshift.spark.sinks.local_folders import LocalFolders, failed, in_the_way
from binshift.spark.sinks.manifest import FINISHED, Manifest, hidden, parsed

MOVES_AT_ONCE: Final = 8
"""Files that are moved together: each move is a copy on an object store."""


def open_folders(spark: SparkSession, root: str) -> Folders | LocalFolders:
    """The directory ``root``, which need not exist yet."""
    session: Any = spark
    path = session._jvm.org.apache.hadoop.fs.Path(root)
    files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    qualified = files.makeQualified(path)
    if str(files.getUri().getScheme()) == "file":
        return LocalFolders(Path(str(qualified.toUri().getPath())))
    return Folders(spark, files, str(qualified.toString()))


class Folders:
    """The contents of one directory.

    Every error of the file system is a `TaskFailed` (`DiskFull` if it has no space) with its message.

    Attributes:
        url: the location, for comparison and messages.
    """

    def __init__(self, spark: SparkSession, files: Any, root: str) -> None:
        session: Any = spark
        self._jvm = session._jvm
        self._files = files
        self.url = root

    def names(self, pattern: str) -> list[str]:
        """Names in the directory that match."""
        with self._translate_errors(pattern):
            return [str(status.getPath().getName()) for status in self._files.globStatus(self._at(pattern)) or ()]

    def make(self, folder: str) -> None:
        """A new folder for a run to write to."""
        with self._translate_errors(folder):
            self._files.mkdirs(self._at(folder))

    def seal(self, manifest: Manifest) -> None:
        """Complete a folder: all of the run's files exist and none is added. Files that are not listed stay hidden."""
        self._write(f"{manifest.folder}/{FINISHED}", manifest.text)

    def publish(self, folder: str, name: str) -> bool:
        """Rename a sealed folder to ``name``, for readers; may be repeated and run by several drivers at once.

        False if it neither exists nor was published: it was removed.

        Raises:
            InvalidQuery: ``name`` holds other files; they are not changed.
            StorageUnavailable: another driver is writing the manifest of ``name``; call again for the result.
        """
        manifest, text = self.manifest(folder), self._text(name)
        found = parsed(text)
        if manifest is None:
            if found is None and text is not None:
                raise StorageUnavailable(
                    f"{self.url}/{name}/{FINISHED} is not a complete list of files: it may still be written; if this persists, "
                    f"delete {self.url}/{name} and start the query again, which writes the epoch again"
                )
            return found is not None and found.folder == folder
        if found is not None and found.folder != folder:
            raise in_the_way(f"{self.url}/{name}")
        self._check_strangers(name, manifest)
        failpoints.reached("publish.between")
        self._move_all(manifest, name)
        failpoints.reached("publish.moved")
        if found is None and parsed(self._text(name)) is None:  # a reader may be using an existing one
            self._write(f"{name}/{FINISHED}", manifest.text)
        self.remove(folder)
        return True

    def manifest(self, folder: str) -> Manifest | None:
        """Of a sealed folder; None if it does not exist."""
        found = parsed(self._text(folder))
        return found if found is not None and found.folder == folder else None

    def release(self, manifest: Manifest) -> None:
        """Move a sealed folder's files to the directory itself; may be repeated and run by several drivers at once."""
        failpoints.reached("publish.between")
        self._move_all(manifest, "")
        failpoints.reached("publish.moved")

    def keep(self, name: str) -> None:
        """Make a file of the directory durable: an object store's is once it exists."""

    def remove(self, name: str) -> None:
        """Remove a folder with all its contents; one that does not exist counts as removed."""
        with self._translate_errors(name):
            self._files.delete(self._at(name), True)

    def _move_all(self, manifest: Manifest, name: str) -> None:
        for parent in sorted({f"{name}/{file}".rpartition("/")[0] for _, file in manifest.files}):
            with self._translate_errors(parent):
                self._files.mkdirs(self._at(parent))
        with ThreadPoolExecutor(MOVES_AT_ONCE) as pool:
            list(pool.map(lambda each: self._move(manifest.folder, name, each), manifest.files))

    def _move(self, folder: str, name: str, file: tuple[int, str]) -> None:
        size, path = file
        source, target = f"{folder}/{hidden(path)}", f"{name}/{path}".removeprefix("/")
        trouble = OSError("it does not exist")
        if self._size(target) != size:
            try:
                with _java_errors():
                    self._files.rename(self._at(source), self._at(target))
            except OSError as error:  # another driver may just have moved it
                trouble = error
            if self._size(target) != size:
                raise failed(f"{self.url}/{target}", trouble)
        failpoints.reached("publish.file")

    def _check_strangers(self, name: str, manifest: Manifest) -> None:
        listed = {f"{name}/{file}" for _, file in manifest.files}
        with self._translate_errors(name):
            try:
                each = self._files.listFiles(self._at(name), True)
            except Py4JJavaError as error:
                if _is_missing(error):
                    return
                raise
            while each.hasNext():
                path = str(each.next().getPath().toString()).removeprefix(f"{self.url}/")
                if path not in listed and not path.rpartition("/")[2].startswith((".", "_")):
                    raise in_the_way(f"{self.url}/{name}")

    def _size(self, name: str) -> int:
        """In bytes; -1 if it does not exist."""
        with self._translate_errors(name):
            try:
                return int(self._files.getFileStatus(self._at(name)).getLen())
            except Py4JJavaError as error:
                if _is_missing(error):
                    return -1
                raise

    def _text(self, folder: str) -> str | None:
        """The text of its manifest, complete or not; None if it has none."""
        with self._translate_errors(folder):
            try:
                stream = self._files.open(self._at(f"{folder}/{FINISHED}"))
            except Py4JJavaError as error:
                if _is_missing(error):
                    return None
                raise
            try:
                data = bytes(self._jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream))
            finally:
                stream.close()
        return data.decode(errors="replace")

    def _write(self, name: str, text: str) -> None:
        with self._translate_errors(name):
            stream = self._files.create(self._at(name), True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

    def _translate_errors(self, name: str) -> contextlib.AbstractContextManager[None]:
        return file_errors(f"{self.url}/{name}")

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}/{name}")


def _is_missing(error: Py4JJavaError) -> bool:
    return "FileNotFoundException" in str(error.java_exception.getClass().getName())


@contextlib.contextmanager
def file_errors(place: str) -> Iterator[None]:
    """Errors of Hadoop's file systems become those of results at ``place``: `DiskFull` or `TaskFailed`."""
    try:
        with _java_errors():
            yield
    except OSError as error:
        if (full := FULL.search(str(error))) is not None:
            raise DiskFull(f"{place} has no room ({full[0]}): free space there; the write is retried") from None
        raise failed(place, error) from None


@contextlib.contextmanager
def _java_errors() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise OSError(str(error.java_exception.toString()).splitlines()[0]) from None
