"""Removes the local stores of queries that are gone, on workers that outlive them; stores in use are kept.

A store is a cache that survives its executor, so only its age shows that it is abandoned. Every task marks its query's folder;
one that has no mark of the last week, and no store that a process has open, is taken to be abandoned. If its query returns
after all, it rebuilds its bins from the log.

This module must never remove a folder that it does not know by its name and everything in it: the place of stores is the
user's choice, and others may keep something there.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from binshift.store.engine import cache_directory
from binshift.store.opening import STAND_IN

log = logging.getLogger(__name__)

ABANDONED_SECONDS = 7 * 24 * 3600.0
"""A stream may be without input, and so without tasks, over a long week-end."""

_QUERY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACE = re.compile(r"[\w.-]+-\d+")
"""A store of an operator on a worker, the meeting place of a rehearsal, or where scratch stores of a worker replace each other."""
_SCRATCH_PLACE = re.compile(rf"[\w.-]+\.{re.escape(STAND_IN)}-\d+")
_SCRATCH = re.compile(r"[\w.]+")
"""A scratch store whose task was killed; named by the attempt."""
_FILE = re.compile(rf"{re.escape(cache_directory.HEADER)}\.\d+|\d+|\d+{re.escape(cache_directory.RUN)}")
_FILES = {cache_directory.DATA, cache_directory.HEADER, cache_directory.LOCK, cache_directory.USERS, "lock.mdb"}
_REMOVED = ".abandoned-"


def mark(query: Path) -> None:
    """The query whose stores are below this folder lives."""
    with suppress(OSError):  # a store that can be used anyway
        os.utime(query)


def remove_abandoned(root: Path, keep: str, now: float) -> list[str]:
    """Remove the stores of queries that are gone; returns their names. After an error they are left to the next call.

    Args:
        root: below which every query has a folder of its own.
        keep: the query that calls this.
        now: seconds since 1970.
    """
    removed = []
    with suppress(OSError):
        for folder in sorted(root.iterdir()):
            if folder.name.startswith(_REMOVED):  # of one that was cut short
                shutil.rmtree(folder, ignore_errors=True)
            elif folder.name != keep and _QUERY.fullmatch(folder.name) and _remove(folder, now):
                log.info("the local stores of query %s, unused for a week, are removed", folder.name)
                removed.append(folder.name)
    return removed


def _remove(folder: Path, now: float) -> bool:
    """Remove a query's folder, unless it is in use, young or not quite ours."""
    with suppress(OSError), _lock_unused(folder) as unused:
        if unused and _is_ours(folder) and now - folder.stat().st_mtime > ABANDONED_SECONDS:
            gone = folder.with_name(f"{_REMOVED}{secrets.token_hex(8)}")
            folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            return True
    return False


def _is_ours(folder: Path) -> bool:
    for place in folder.iterdir():
        if not _is_folder(place) or not _PLACE.fullmatch(place.name):
            return False
        scratch = _SCRATCH_PLACE.fullmatch(place.name) is not None
        for each in place.iterdir():
            if scratch and _is_folder(each) and _SCRATCH.fullmatch(each.name):
                if not all(map(_is_our_file, each.iterdir())):
                    return False
            elif not _is_our_file(each):
                return False
    return True


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_our_file(path: Path) -> bool:
    return path.is_file() and (path.name in _FILES or _FILE.fullmatch(path.name) is not None)


@contextmanager
def _lock_unused(folder: Path) -> Iterator[bool]:
    """Whether no process has a store below open; meanwhile none can open one."""
    with ExitStack() as locks:
        try:
            for users in (*folder.glob(f"*/{cache_directory.USERS}"), *folder.glob(f"*/*/{cache_directory.USERS}")):
                file = locks.enter_context(users.open("rb"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
