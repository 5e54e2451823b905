"""The disk under a local store: is there room, and may we write?

This module owns what is said when not. A file that is mapped into memory ends its process when the disk has no room for a
page of it, so room is asked for before: when a transaction begins, and for whatever is large in it. That a disk is full
passes, and is tried again; that a directory may not be written takes a person.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    """What the system says of a store's directory as errors of ours. Only around the store's own work on its files.

    Raises:
        InvalidSettings: it may not be written.
        DiskFull: it has no room.
        StoreDamaged: it cannot be used for another reason.
    """
    try:
        yield
    except OSError as error:
        why = f"{error.strerror or error}"
        if error.errno in diskerrors.REFUSED:
            raise InvalidSettings(
                f"the local store {directory} cannot be written ({why}): give the user that runs executors the right to, or "
                "choose another directory (BINSHIFT_STORE_DIR, or the setting store_directory)"
            ) from error
        if error.errno in diskerrors.FULL:
            raise DiskFull(
                f"the disk of the local store {directory} is full ({why}); nothing was changed, and it is tried again. Free "
                "space there, or give executors a larger disk (BINSHIFT_STORE_DIR, or the setting store_directory)"
            ) from error
        raise StoreDamaged(f"the local store {directory} cannot be used ({why}): it is built again") from error
