"""What one process has of the directory of a store: LMDB's environment, opened once, and what must happen before.

Opening is slow (the page tables of all rows), so an environment stays open from task to task. Several processes share one
directory; each notices by the file's identity when another one wiped it, and opens the new file.

The settings fit a cache: no syncing at all and a writable map, so a commit is a few milliseconds and survives the end
of the process but not of the machine (`cache_directory` sees to that case). LMDB's file is as long as the map from the
start, but sparse.

It must never show LMDB a file that changed unnoticed: who was present, and what they left, decides whether the file is verified
first (`users`, `lmdb_file`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb

from binshift.errors import InvalidSettings, StateTooLarge, StoreDamaged
from binshift.store.engine import cache_directory, lmdb_file, room, row_checksums
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.lmdb_places import Places
from binshift.store.engine.lmdb_transaction import Opened
from binshift.store.engine.run_files import RunFiles
from binshift.store.engine.users import Presence

_TORN = (
    *(lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.VersionMismatchError),
    *(lmdb.PanicError, lmdb.IncompatibleError, lmdb.BadTxnError),
)
_FULL = (lmdb.MapFullError, lmdb.TxnFullError)
ROWS, BLOBS = b"rows", b"blobs"
"""The two databases of a store."""
IDENTITY = "identity"
"""The blob with the file's owner: a header can be put next to another file."""
SETTINGS: dict[str, Any] = {"max_dbs": 2, "sync": False, "metasync": False, "writemap": True, "readahead": False}
_OPEN_SECONDS_MAX = 60.0


class LmdbPlace:
    """What one process has of one directory: the lock, and the environment that is open, if any."""

    def __init__(self, directory: Path, map_bytes: int, identity: str) -> None:
        self.directory = directory
        self.lock = cache_directory.WriteLock(directory)
        self.runs = RunFiles(directory)
        self._map_bytes = map_bytes
        self._identity = identity
        self._mutex = threading.RLock()
        self._opened: Opened | None = None

    @contextmanager
    def environment(self, *, lock_held: bool = False) -> Iterator[Opened]:
        """The environment of the file that is there now, opened if need be; it stays open while this is held."""
        opened = self._current()
        if opened is None and lock_held:
            opened = self._reopen()
        elif opened is None:
            with self.lock.held(_OPEN_SECONDS_MAX):
                opened = self._current() or self._reopen()
        try:
            yield opened
        finally:
            with self._mutex:
                opened.end_use()

    def _current(self) -> Opened | None:
        """The open environment, taken into use, if it is that of the file now there."""
        with self._mutex:
            opened = self._opened
            if opened is None or opened.file != cache_directory.file_identity(self.directory):
                self.forget()
                return None
            opened.begin_use()
            return opened

    def forget(self) -> None:
        """Close the environment as soon as no thread uses it; the next one checks the directory again."""
        with self._mutex:
            opened, self._opened, self.runs = self._opened, None, RunFiles(self.directory)
            if opened is not None:
                opened.stale = True
                if not opened.users:
                    opened.close()

    def reset_after_fork(self) -> None:
        """Reset inherited state in a forked child."""
        opened, self._opened = self._opened, None
        self.lock, self._mutex = cache_directory.WriteLock(self.directory), threading.RLock()
        if opened is not None:
            opened.presence.inherit()
            # One in use at the fork cannot be closed: its transaction belongs to a thread that the child has not.
            if not opened.users:
                opened.close()

    def _reopen(self) -> Opened:
        """Judge, wipe if need be, open. Needs the write lock."""
        with room.translate_os_errors(self.directory):
            presence = Presence(self.directory)
            try:
                environment, handles = self._judged(presence)
            except BaseException:
                presence.close()
                raise
        with self._mutex:
            file = cache_directory.file_identity(self.directory)
            self._opened = opened = Opened(environment, *handles, file=file, presence=presence, users=1)
        places.opened(self.directory, self._identity)
        return opened

    def _judged(self, presence: Presence) -> tuple[lmdb.Environment, tuple[Any, Any]]:
        """An environment on a file that is whole: the existing one, or a new one."""
        unchanged = presence.is_unchanged()
        expected = cache_directory.header(".".join(map(str, lmdb.version()[:2])), self._identity, self._map_bytes)
        reason = cache_directory.unusable(self.directory, expected)
        if reason is None and presence.alone and not presence.left_clean:
            # Should even reading it end this process, the next one finds the store marked unusable.
            cache_directory.mark_unusable(self.directory)
            reason = lmdb_file.trouble(self.directory / cache_directory.DATA, ROWS, BLOBS, (IDENTITY, self._identity))
        if presence.alone:
            cache_directory.forget_readers(self.directory)
        try:
            found = self._open() if reason is None else None
        except _TORN as error:
            found, reason = None, f"LMDB cannot open it ({error})"
        if found is None:
            cache_directory.wipe(self.directory, reason or "")
            found = self._open()
            with found[0].begin(write=True, db=found[1][1]) as transaction:
                transaction.put(IDENTITY.encode(), row_checksums.add_to_blob(IDENTITY, self._identity.encode()))
        if reason is not None or presence.alone:
            cache_directory.write_header(self.directory, expected)
        # To open it changes its times. A file that is verified or new is as it should be; another one only if it was.
        if reason is not None or presence.alone or unchanged:
            presence.mark_unchanged()
        return found

    def _open(self) -> tuple[lmdb.Environment, tuple[Any, Any]]:
        room.check_fits(self._map_bytes)
        try:
            environment = lmdb.open(str(self.directory), map_size=self._map_bytes, **SETTINGS)
        except lmdb.MemoryError as error:
            raise InvalidSettings(room.refusal(self._map_bytes, str(error))) from error
        except _TORN:
            raise
        except lmdb.Error as error:
            raise OSError(error.code, str(error)) from error
        try:
            environment.reader_check()
            return environment, (environment.open_db(ROWS), environment.open_db(BLOBS))
        except lmdb.Error:
            environment.close()
            raise

    @contextmanager
    def translated(self, opened: Opened, limits: StoreLimits) -> Iterator[None]:
        """LMDB's errors as ours; a torn file is marked unusable."""
        try:
            yield
        except _FULL as error:
            raise StateTooLarge(
                f"the local store {self.directory} is full at {limits.map_bytes_max} bytes ({error}); nothing was "
                "changed. Raise StoreLimits.map_bytes_max, or use more workers"
            ) from error
        except (*_TORN, StoreDamaged) as error:
            if opened.file == cache_directory.file_identity(self.directory):
                cache_directory.mark_unusable(self.directory)
            self.forget()
            raise StoreDamaged(f"the local store {self.directory} is damaged ({error}): it is rebuilt") from error


places: Final[Places[LmdbPlace]] = Places()
"""Of this process."""

# A forked child must not touch its parent's environments, nor their locks: it opens its own.
os.register_at_fork(after_in_child=places.reset_after_fork)
