"""A folder mounted through FUSE that is as slow and as faulty as a file states: a separate process, see `faulty_disk`.

usage: python faulty_disk_server.py FOLDER MOUNT_POINT FAULT

The file FAULT, which is read repeatedly, is a line of JSON: the seconds that each call takes (null: no answer while the file
has null, or for two minutes), the name of the error that calls end with (null: none), and which calls fail (none: all; with
EROFS all that change something). With "link, done" the call takes effect before it fails.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mfusepy

LOOK_SECONDS = 0.05
"""Interval of reading the fault while a call waits."""

STILL_SECONDS_MAX = 120.0
"""After this time without an answer the error is "no answer": otherwise a test that waits here could not even be killed."""

UNCACHED = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0}
"""The kernel sends each request, instead of caching the answer for a second."""

ATTRIBUTES = ("atime_ns", "ctime_ns", "mtime_ns", "gid", "mode", "nlink", "size", "uid", "blocks")


def faulty(call: Callable[..., Any], *, changes: bool = False) -> Callable[..., Any]:
    """A call that applies the fault first."""

    @functools.wraps(call)
    def met(self: FaultyFolder, *arguments: Any) -> Any:
        self.meet(call.__name__, changes)
        result = call(self, *arguments)
        self.answer(call.__name__)
        return result

    return met


changing = functools.partial(faulty, changes=True)
"""The same for a call that a write-protected disk rejects."""


class FaultyFolder(mfusepy.Operations):  # type: ignore[misc]  # published without types
    """The FUSE operations on a folder elsewhere."""

    use_ns = True

    def __init__(self, folder: Path, fault: Path) -> None:
        self._folder, self._fault = str(folder), fault

    def meet(self, call: str, changes: bool) -> None:
        """Wait as long as the fault requires, and fail if it requires that."""
        begun = time.monotonic()
        while True:
            seconds, name, calls = json.loads(self._fault.read_text())
            left = begun + (STILL_SECONDS_MAX if seconds is None else seconds) - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, LOOK_SECONDS))
        if seconds is None:
            raise mfusepy.FuseOSError(errno.ETIMEDOUT)
        if name and call in (calls or [call]) and (changes or name != "EROFS"):
            raise mfusepy.FuseOSError(getattr(errno, name))

    def answer(self, call: str) -> None:
        """Fail after the call took effect, if the fault requires that."""
        _, name, calls = json.loads(self._fault.read_text())
        if f"{call}, done" in calls:
            raise mfusepy.FuseOSError(getattr(errno, name))

    def _real(self, path: str) -> str:
        return self._folder + path

    @faulty
    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self._real(path))
        return {f"st_{name.removesuffix('_ns')}": getattr(found, f"st_{name}") for name in ATTRIBUTES}

    @faulty
    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._real(path))]

    @changing
    def create(self, path: str, mode: int, flags: int) -> int:
        return os.open(self._real(path), flags | os.O_CREAT, mode)

    def open(self, path: str, flags: int) -> int:
        self.meet("open", bool(flags & (os.O_WRONLY | os.O_RDWR)))
        return os.open(self._real(path), flags & ~os.O_APPEND)

    @faulty
    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    @changing
    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    @faulty
    def fsync(self, path: str, datasync: int, fh: int) -> int:
        os.fsync(fh)
        return 0

    @faulty
    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        descriptor = os.open(self._real(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    @changing
    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._real(path), length)
        return 0

    @changing
    def link(self, target: str, source: str) -> int:
        os.link(self._real(source), self._real(target))
        return 0

    @changing
    def rename(self, old: str, new: str) -> int:
        os.rename(self._real(old), self._real(new))
        return 0

    @changing
    def unlink(self, path: str) -> int:
        os.unlink(self._real(path))
        return 0

    @changing
    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._real(path), mode)
        return 0

    @changing
    def rmdir(self, path: str) -> int:
        os.rmdir(self._real(path))
        return 0

    @changing
    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._real(path), mode)
        return 0

    @changing
    def utimens(self, path: str, times: tuple[int, int]) -> int:
        os.utime(self._real(path), ns=times)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._real(path))
        names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "flag", "frsize", "namemax")
        return {f"f_{name}": getattr(found, f"f_{name}") for name in names}


if __name__ == "__main__":
    FOLDER, MOUNT_POINT, FAULT = map(Path, sys.argv[1:])
    mfusepy.FUSE(FaultyFolder(FOLDER, FAULT), str(MOUNT_POINT), foreground=True, **UNCACHED)
