"""Copies files from one storage to another: a few at once, in parts, with pauses, so that epochs keep the network and the disk.

The threads are daemons: a program that ends does not wait for a copy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from binshift.errors import LogDamaged, LogFileMissing
from binshift.log.storage.contract import Storage

FILES_AT_ONCE: Final = 4
"""Small files cost waiting more than bytes."""
PART_BYTES: Final = 4 * 1024 * 1024
"""Read and written at once: with the parts that an upload to S3 keeps, a copy takes less than 64 MiB."""

T = TypeVar("T")


class CopyStopped(Exception):
    """The copy was asked to end; what was copied stays."""


class Gone(Exception):
    """A file to be copied does not exist any more; the argument is its name."""


@dataclass(frozen=True)
class Pace:
    """How fast a copy is.

    Attributes:
        duty: the share of time in which it works instead of pausing, up to 1.
        stop: ends it.
    """

    duty: float = 1.0
    stop: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> None:
        """Wait; `CopyStopped` if the copy is to end."""
        if self.stop.wait(seconds):
            raise CopyStopped

    def rest(self, began: float) -> None:
        """Pause after work that began at that time of `time.monotonic`, in seconds. Errors as `wait`."""
        self.wait((time.monotonic() - began) * (1 / self.duty - 1))


def copy_file(source: Storage, name: str, size: int, target: Storage, target_name: str, pace: Pace) -> None:
    """Copy a file of ``size`` bytes.

    Raises:
        Gone: the source has no such file of that size.
        CopyStopped: the copy is to end.
        StorageUnavailable, DiskFull, InvalidSettings: as the storages.
    """
    began = time.monotonic()
    if size <= PART_BYTES:
        data = _read(name, lambda: source.get(name))
        if len(data) != size:
            raise Gone(name)
        target.put(target_name, data)
        pace.rest(began)
        return
    upload = target.upload(target_name)
    try:
        for start in range(0, size, PART_BYTES):
            end = min(size, start + PART_BYTES)
            for part in _read(name, lambda start=start, end=end: source.get_ranges(name, [(start, end)])):  # type: ignore[misc]
                upload.write(part)
            pace.rest(began)
            began = time.monotonic()
        upload.finish()
    finally:
        upload.abort()


def _read(name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except (LogFileMissing, LogDamaged) as error:  # there is none, or it is shorter
        raise Gone(name) from error


def each_of(items: Iterable[T], act: Callable[[T], None]) -> None:
    """Call ``act`` with every item, a few at once; after an error no other item begins.

    Raises:
        Exception: the first error.
    """
    waiting, lock, errors = iter(items), threading.Lock(), list[Exception]()

    def work() -> None:
        while not errors:
            with lock:
                item = next(waiting, waiting)
            if item is waiting:
                return
            try:
                act(item)  # type: ignore[arg-type]
            except Exception as error:  # the edge of a thread: the caller raises it
                errors.append(error)

    threads = [threading.Thread(target=work, name="binshift-copy", daemon=True) for _ in range(FILES_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
