"""Removes a savepoint: its own files only, the description first, so that it is never half of one, and the mark last.

A removal that was interrupted can be repeated. Files that are no part of a savepoint stay.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from binshift.errors import LogError, SnapshotRefused
from binshift.log.storage import layout as log_layout
from binshift.log.storage.contract import Storage
from binshift.log.storage.local_files import LocalStorage
from binshift.savepoints import layout, records

FILES_DELETED_AT_ONCE: Final = 1000
"""As many as S3 takes in one request."""


def remove(files: Storage, name: str) -> None:
    """Remove the savepoint ``name``, complete or not, from ``files``; nothing happens where there is none.

    Raises:
        SnapshotRefused: the files are of another savepoint, or its descriptions cannot be read.
        StorageUnavailable: the storage did not answer; repeat the same call.
        InvalidSettings: it refuses access.
    """
    names, damage = [], []
    for read in (records.complete, records.begun):
        try:
            found = read(files)
        except LogError as error:  # the other description names it, too
            damage.append(error)
        else:
            names += [found.name] if found else []
    if damage and not names:
        raise SnapshotRefused(f"nothing was removed at {files.url}: {damage[0]}") from damage[0]
    if other := [each for each in names if each != name]:
        raise SnapshotRefused(f"{files.url} has the snapshot {other[0]!r}, not {name!r}: nothing was removed")
    if names:
        clear(files, [layout.DESCRIPTION], [layout.BEGUN])
    if isinstance(files, LocalStorage):
        _remove_empty_folders(files.root)


def _remove_empty_folders(root: Path) -> None:
    """Remove a folder as far as it has no files, with those in it."""
    for folder, _, _ in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):  # not empty, or gone: both are fine
            Path(folder).rmdir()


def clear(files: Storage, first: Collection[str], last: Collection[str]) -> None:
    """Remove all files that can be part of a savepoint: the names in ``first``, then the others, then those in ``last``.

    Raises:
        StorageUnavailable: the storage did not answer; repeat the same call.
        InvalidSettings: it refuses access.
    """
    files.delete(first)
    names = [each.name for each in files.list("") if layout.belongs(each.name)]
    for start in range(0, len(names), FILES_DELETED_AT_ONCE):
        files.delete(names[start : start + FILES_DELETED_AT_ONCE])
    clear_unfinished(files)
    files.delete(last)


def clear_unfinished(files: Storage) -> None:
    """Remove the files without a name that a killed copy has left on a file system. Errors as `clear`."""
    files.delete([each.name for each in files.list(log_layout.PARTIAL)])
