"""Is there room for a local store: on its disk, and in this process's address space? And may we write?

A write to a memory-mapped file ends the process if the disk has no room for the page, so room is reserved before: when a
transaction begins, and for each large part of it. If the disk is full, the write is retried; if a directory is not writable,
its permissions must be changed.

LMDB maps its whole file. Under a limit on address space (RLIMIT_AS, which Spark sets in Python workers from
`spark.executor.pyspark.memory`) a map that does not fit fails with a bare "cannot allocate memory"; asking first lets the message
name the two settings that contradict each other.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from binshift import diskerrors
from binshift.errors import DiskFull, InvalidSettings, StoreDamaged


def check_room(directory: Path, need_bytes: int, least_bytes: int) -> None:
    """Refuse to write where too little would be left.

    Raises:
        DiskFull: names the directory, what is free and what is wanted.
    """
    found = os.statvfs(directory)
    free = found.f_bavail * found.f_frsize
    if free < need_bytes + least_bytes:
        raise DiskFull(
            f"the disk of the local store {directory} has {free} bytes free, and this write may take {need_bytes} and must "
            f"leave {least_bytes}; nothing was changed, and it is tried again. Free space there, give executors a larger disk "
            "(BINSHIFT_STORE_DIR, or the setting store_directory), or use more workers"
        )


@contextmanager
def translate_os_errors(directory: Path) -> Iterator[None]:
    """Translates system errors about a store's directory. Only around the store's own work on its files.

    Raises:
        InvalidSettings: it is not writable.
        DiskFull: it has no room.
        StoreDamaged: it cannot be used for another reason.
    """
    try:
        yield
    except OSError as error:
        why = f"{error.strerror or error}"
        if error.errno in diskerrors.REFUSED:
            raise InvalidSettings(
                f"the local store {directory} cannot be written ({why}): give the user that runs executors the right to write there, or "
                "choose another directory (BINSHIFT_STORE_DIR, or the setting store_directory)"
            ) from error
        if error.errno in diskerrors.FULL:
            raise DiskFull(
                f"the disk of the local store {directory} is full ({why}); nothing was changed, and it is tried again. Free "
                "space there, or give executors a larger disk (BINSHIFT_STORE_DIR, or the setting store_directory)"
            ) from error
        raise StoreDamaged(f"the local store {directory} cannot be used ({why}): it is rebuilt") from error


def check_fits(map_bytes: int) -> None:
    """Refuse a map that cannot be had.

    Raises:
        InvalidSettings: names both settings and what would fit.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and used_bytes() + map_bytes > limit:
        raise InvalidSettings(refusal(map_bytes, f"limit {limit} bytes, of which {used_bytes()} are used"))


def is_limited() -> bool:
    """Whether this process's address space is limited."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def used_bytes() -> int:
    """Address space in use now; 0 where the system does not report it."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


def refusal(map_bytes: int, why: str) -> str:
    """The message for a map that cannot be had."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    fits = max(0, limit - used_bytes()) // 2 if limit != resource.RLIM_INFINITY else map_bytes // 2
    return (
        f"a local store needs {map_bytes} bytes of address space, and this process cannot have them ({why}). Set "
        f"StoreLimits.map_bytes_max to at most {fits} (it bounds the state of one worker and operator), or raise or "
        "remove spark.executor.pyspark.memory"
    )
