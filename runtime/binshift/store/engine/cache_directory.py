"""The directory of a store on disk: is what lies there ours, whole, and of this boot of this machine?

This module owns three things of a store's directory: the header next to the data file, the write lock, and wiping. LMDB writes
without syncing here (stores are caches), so after a crash of the machine its file may hold any mixture of old and new pages, and
opening such a file can crash the process. Hence the file is checked before LMDB opens it: same kernel boot, same host, same
format, same owner, not shorter than it was made; and, if it may have changed unnoticed (`users`), whole to the last byte
(`lmdb_file`). Anything else is wiped.

It must never wipe without the write lock, and never unlink the lock file: another process may be waiting on it.
Wiping unlinks, never truncates: a process that still has the old file mapped keeps reading the old file.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from binshift.errors import StoreBusy
from binshift.store.engine import room

logger = logging.getLogger(__name__)

FORMAT = 4
"""Changes whenever stored keys, values or blobs do."""

DATA, HEADER, LOCK, USERS = "data.mdb", "header.json", "writer.lock", "users.lock"
RUN = ".run"
"""Ends the name of a sorted run's file."""
_READERS = "lock.mdb"
_OURS = (HEADER, DATA, _READERS)
_POLL_SECONDS_MIN, _POLL_SECONDS_MAX = 0.0005, 0.02


class Header(msgspec.Struct, frozen=True):
    """What a store was made by, for and where; it is usable only where all of this is the same."""

    format: int
    engine: str
    boot: str
    host: str
    identity: str
    map_bytes: int


_decoder = msgspec.json.Decoder(Header)


def header(engine: str, identity: str, map_bytes: int) -> Header:
    """The header of a store made here and now."""
    return Header(FORMAT, engine, kernel_boot(), socket.gethostname(), identity, map_bytes)


def kernel_boot() -> str:
    """An id of this kernel's boot: another one means that unsynced pages may be lost."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    started = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return hashlib.blake2b(started.encode(), digest_size=16).hexdigest()


def unusable(directory: Path, expected: Header) -> str | None:
    """Why what lies in ``directory`` cannot be used; None if it can. "" if there is nothing. Needs the write lock."""
    data = directory / DATA
    if not data.exists():
        return ""
    try:
        found = _decoder.decode((directory / HEADER).read_bytes())
    except (OSError, ValueError, msgspec.MsgspecError) as error:  # ValueError: text that is no UTF-8
        return f"it has no readable header ({error})"
    for name in ("format", "engine", "identity", "boot", "host"):
        was, now = getattr(found, name), getattr(expected, name)
        if was != now:
            return f"its {name} is {was!r}, and here it is {now!r}"
    # LMDB makes the file as long as its map at once, and would silently lengthen a truncated one with zeros.
    size = data.stat().st_size
    if size < found.map_bytes:
        return f"its file has {size} bytes and was made with {found.map_bytes}"
    return None


def write_header(directory: Path, made: Header) -> None:
    """Declare the directory usable. Last of all, so that a store whose making was cut short has no header."""
    fresh = directory / f"{HEADER}.{os.getpid()}"
    fresh.write_bytes(msgspec.json.encode(made))
    fresh.replace(directory / HEADER)


def mark_unusable(directory: Path) -> None:
    """Make the next one to open this directory wipe it."""
    (directory / HEADER).unlink(missing_ok=True)


def wipe(directory: Path, reason: str) -> None:
    """Remove the store, and log why (unless ``reason`` is empty). Needs the write lock."""
    if reason:
        logger.warning("local store %s is discarded and starts empty: %s", directory, reason)
    for path in (*(directory / name for name in _OURS), *directory.glob(f"*{RUN}")):
        path.unlink(missing_ok=True)


def forget_readers(directory: Path) -> None:
    """Remove LMDB's own table of readers and writers; only while no process has the store open."""
    (directory / _READERS).unlink(missing_ok=True)


def file_identity(directory: Path) -> tuple[int, int] | None:
    """The identity of the data file; None if there is none. Changes when a store is wiped and recreated."""
    try:
        found = (directory / DATA).stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class WriteLock:
    """One writer among all threads of all processes, with a time-out.

    LMDB's own writer lock has no time limit, and a task behind a stuck one would wait forever; this lock is taken first. The
    kernel drops it when its holder dies.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK
        self._threads = threading.Lock()

    @contextmanager
    def held(self, timeout_seconds: float) -> Iterator[None]:
        """Hold the lock.

        Raises:
            StoreBusy: another process held it for all of ``timeout_seconds``.
        """
        deadline = time.monotonic() + timeout_seconds
        if not self._threads.acquire(timeout=timeout_seconds):
            raise self._busy(timeout_seconds)
        try:
            with room.translate_os_errors(self._path.parent):
                handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._lock_file(handle, deadline, timeout_seconds)
                yield
                # Explicitly, as a child forked meanwhile holds a copy of the handle.
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)
                os.close(handle)
        finally:
            self._threads.release()

    def _lock_file(self, handle: int, deadline: float, timeout_seconds: float) -> None:
        # The kernel offers no flock with a time-out that is safe with other threads: poll, at growing intervals.
        pause = _POLL_SECONDS_MIN
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise self._busy(timeout_seconds) from error
            else:
                return
            time.sleep(pause)
            pause = min(2 * pause, _POLL_SECONDS_MAX)

    def _busy(self, timeout_seconds: float) -> StoreBusy:
        return StoreBusy(
            f"the write lock {self._path} is held by another task for more than {timeout_seconds} s; if no task "
            "of this worker is running, end the process that holds it"
        )
