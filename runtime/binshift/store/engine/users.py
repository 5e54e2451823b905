"""The processes that have a store open, and whether they left its file as they found or made it.

To verify a file before LMDB opens it takes seconds for each GiB (`lmdb_file`). That is needed only if the file may have changed
unnoticed. This module knows from one small file, ``users.lock``, that it did not:

- Each process that has the store open holds a shared lock of it, which the kernel drops when the process ends.
- Each of them has a byte in it: `BUSY` while it uses the store, `IDLE` otherwise. A process that ends in between, because it was
  killed or because damage crashed it, leaves `BUSY`.
- It begins with a *mark*: identity, size and times of the data file after its last change. The modification time is set for
  this, to a value of a clock that is finer than file times: a change by another program in the same tick has another one.

The file is mapped into memory, so that marking a use costs no system call, works on a full disk and outlives the process.

It must never trust a file that changed between two uses, and never confirm such a file afterwards: a mark replaces only a mark
that was still true when the use began, or follows a verification.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from binshift.store.engine.cache_directory import DATA, USERS

IDLE, BUSY = 0xA5, 0x5A
"""No bit that flips makes one of the other."""
_CHECKSUM = struct.Struct("<I")
_CONTENT = struct.Struct("<QQQqqQ")
MARK_BYTES = _CONTENT.size + _CHECKSUM.size


class Presence:
    """That this process has the store of one directory open, until `close`; it begins as a user.

    All methods but `begin_use` and `end_use` need the write lock, and so does making one.
    """

    def __init__(self, directory: Path) -> None:
        self._data = directory / DATA
        handle = os.open(directory / USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self.alone = _is_alone(handle)
            """No other process has it open: the file is in no memory that another one has verified."""
            found = os.pread(handle, os.fstat(handle).st_size, 0)
            self.left_clean = self.alone and _is_left_clean(found, self._data)
            """The last process that used it ended no use halfway, and the file has not changed since."""
            if self.alone:
                os.ftruncate(handle, MARK_BYTES)
            self._slot = MARK_BYTES if self.alone else max(MARK_BYTES, len(found))
            os.pwrite(handle, bytes([BUSY]), self._slot)
            self._map = mmap.mmap(handle, self._slot + 1)  # keeps the lock, with a handle of its own
        finally:
            os.close(handle)
        self._inherited = False

    def begin_use(self) -> None:
        """From now on the end of this process is an unclean one."""
        self._set(BUSY)

    def end_use(self) -> None:
        """No thread of this process uses the store."""
        self._set(IDLE)

    def _set(self, state: int) -> None:
        if not self._inherited:
            self._map[self._slot] = state

    def is_unchanged(self) -> bool:
        """Whether the file is as the last change by one of its users left it."""
        return _marked(self._map[:MARK_BYTES])[:-1] == _found(self._data) != ()

    def mark_unchanged(self) -> None:
        """The file is as it should be; a change without a mark is noticed."""
        now = time.time_ns()
        with suppress(OSError):  # no mark is true then, and the next process verifies the file
            os.utime(self._data, ns=(now, now))
            found = _found(self._data)
            if found and found[3] == now:  # the file system keeps nanoseconds
                content = _CONTENT.pack(*found, self._map.size() - MARK_BYTES)
                self._map[:MARK_BYTES] = content + _CHECKSUM.pack(zlib.crc32(content))

    @contextmanager
    def changing(self) -> Iterator[None]:
        """The caller changes the file, and marks it afterwards, if it was unchanged until now."""
        unchanged = self.is_unchanged()
        try:
            yield
        finally:
            if unchanged:
                self.mark_unchanged()

    def inherit(self) -> None:
        """This process is a child, forked by the one that is present: its uses are not recorded."""
        self._inherited = True

    def close(self) -> None:
        """The process has it open no more."""
        self._map.close()


def _is_alone(handle: int) -> bool:
    """Whether no other process has the lock; it is taken."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except BlockingIOError:
        alone = False
    fcntl.flock(handle, fcntl.LOCK_SH)
    return alone


def _is_left_clean(content: bytes, data: Path) -> bool:
    mark, states = _marked(content[:MARK_BYTES]), content[MARK_BYTES:]
    return mark != () and mark == (*_found(data), len(states)) and set(states) == {IDLE}


def _marked(mark: bytes) -> tuple[int, ...]:
    """Device, inode, size and times of the file as marked, and the number of users; empty if there is no whole mark."""
    if len(mark) < MARK_BYTES or _CHECKSUM.pack(zlib.crc32(mark[: _CONTENT.size])) != mark[_CONTENT.size :]:
        return ()
    return _CONTENT.unpack(mark[: _CONTENT.size])


def _found(data: Path) -> tuple[int, ...]:
    """The same of the file as it is; empty if it cannot be read."""
    with suppress(OSError):
        found = data.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return ()
