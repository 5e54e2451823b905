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


def remove(files: Storage, name: str, checkpoint: str) -> None:
    """Remove the savepoint ``name`` of that checkpoint, complete or not, from ``files``; nothing happens where there is none.

    Raises:
        SnapshotRefused: the files are of another savepoint, or its descriptions cannot be read.
        StorageUnavailable: the storage did not answer; repeat the same call.
        InvalidSettings: it refuses access.
    """
    there, damage = [], []
    for read in (records.complete, records.begun):
        try:
            found = read(files)
        except LogError as error:  # the other description names it, too
            damage.append(error)
        else:
            there += [found] if found else []
    if damage and not there:
        raise SnapshotRefused(f"nothing was removed at {files.url}: {damage[0]}") from damage[0]
    if other := [each for each in there if (each.name, each.checkpoint) != (name, checkpoint)]:
        whose = "" if other[0].checkpoint == checkpoint else f" of another checkpoint of query {other[0].query}"
        raise SnapshotRefused(
            f"{files.url} has the snapshot {other[0].name!r}{whose}, not {name!r}: nothing was removed"
        )
    if there:
        clear(files, [layout.DESCRIPTION], [layout.BEGUN])
        if isinstance(files, LocalStorage):
            _remove_empty_folders(files.root)


def _remove_empty_folders(root: Path) -> None:
    """Remove the folders of a savepoint, as far as they have no files."""
    for name in (layout.OFFSETS, layout.COMMITS, layout.SOURCES, layout.LOG, log_layout.PARTIAL):
        for folder, _, _ in os.walk(root / name, topdown=False):
            with contextlib.suppress(OSError):  # not empty, or gone: both are fine
                Path(folder).rmdir()
    with contextlib.suppress(OSError):
        root.rmdir()


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
