"""Folders of a file system that Spark writes to, whichever it is: Hadoop's ``FileSystem``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


class Folders:
    """What lies in one folder. Whatever the file system refuses is an `OSError` with what it said.

    Args:
        spark: knows the file system.
        root: the folder; it need not be there yet.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        session: Any = spark
        self._path = session._jvm.org.apache.hadoop.fs.Path
        self._root = root
        self._files = self._path(root).getFileSystem(session._jsparkSession.sessionState().newHadoopConf())

    def names(self, pattern: str) -> list[str]:
        """Names in the folder that match."""
        with self._told():
            found = self._files.globStatus(self._at(pattern))
        return [status.getPath().getName() for status in found or ()]

    def remove(self, name: str) -> None:
        """Remove a file or folder with all it has; what is not there is as good as removed."""
        with self._told():
            self._files.delete(self._at(name), True)

    def rename(self, name: str, new: str) -> None:
        """Give a folder another name, which nothing has."""
        with self._told():
            renamed = self._files.rename(self._at(name), self._at(new))
        if not renamed:
            raise OSError(f"{self._root}/{name} cannot be renamed to {new}: is it still there, and is {new} gone?")

    def mark(self, name: str) -> None:
        """Leave an empty file."""
        with self._told():
            self._files.create(self._at(name), True).close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            said = str(error.java_exception.toString()).splitlines()[0]
            raise OSError(f"{self._root}: {said}") from None

    def _at(self, name: str) -> Any:
        return self._path(f"{self._root}/{name}")
