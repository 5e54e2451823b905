"""The store on disk: LMDB, opened once per process and directory.

This module owns every call of LMDB, and the registry of environments: LMDB may open a file only once in a process, and opening
is slow (the page tables of all rows), so an environment stays open from task to task. Several
processes share one directory; each notices by the file's identity when another one wiped it, and opens the new file.

The settings fit a cache: no syncing at all and a writable map, so a commit is a few milliseconds and survives the end
of the process but not of the machine (`cachedir` sees to that case). LMDB's file is as long as the map from the
start, but sparse.

It must never wait for LMDB's own writer lock (it has no time-out; binshift's is taken first), and never raise an untranslated
LMDB error: a full map is `StateTooLarge`, a full disk `DiskFull`, a torn file `StoreDamaged`, after which the next task to open
the directory wipes it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from binshift.errors import InvalidSettings, StateTooLarge, StoreBusy, StoreDamaged
from binshift.store.engine import cache_directory, lmdb_file, room, row_checksums
from binshift.store.engine.contract import StoreLimits, Transaction
from binshift.store.engine.lmdb_places import Places
from binshift.store.engine.lmdb_transaction import LmdbTransaction, Opened

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


class LmdbStore:
    """A `KeyValueStore` in a directory of its own; `open_lmdb` makes one."""

    def __init__(self, place: _Place, limits: StoreLimits) -> None:
        self._place = place
        self._limits = limits

    @property
    def directory(self) -> Path:
        """Where the rows are."""
        return self._place.directory

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A snapshot.

        Raises:
            StoreDamaged: the file turns out to be torn.
        """
        with self._place.environment() as opened, self._place.translated(opened, self._limits):
            handle = _begin_read(opened)
            try:
                yield LmdbTransaction(handle, opened, self._limits, self.directory, writable=False)
            finally:
                handle.abort()

    @contextmanager
    def write(self, timeout_seconds: float) -> Iterator[Transaction]:
        """A write transaction.

        Raises:
            StoreBusy: another thread or process did not end its own within ``timeout_seconds``.
            StateTooLarge, DiskFull: the map is full, or too little of the disk is left; nothing was changed.
            StoreDamaged: the file turns out to be torn.
        """
        with (
            self._place.lock.held(timeout_seconds),
            self._place.environment(lock_held=True) as opened,
            self._place.translated(opened, self._limits),
        ):
            room.check_room(self.directory, 0, self._limits.disk_free_bytes_min)
            opened.environment.reader_check()  # the slot of a killed reader would keep old pages forever
            handle = opened.environment.begin(write=True)
            try:
                yield LmdbTransaction(handle, opened, self._limits, self.directory, writable=True)
                handle.commit()
            except BaseException:
                handle.abort()
                raise

    def size_bytes(self) -> int:
        """Bytes of all pages that hold rows."""
        found = self._stat()
        return (found["branch_pages"] + found["leaf_pages"] + found["overflow_pages"]) * found["psize"]

    def row_count(self) -> int:
        """Rows of all bins; long keys of the same hash count as one."""
        return self._stat()["entries"]

    def _stat(self) -> dict[str, int]:
        place = self._place
        with (
            place.environment() as opened,
            place.translated(opened, self._limits),
            opened.environment.begin() as handle,
        ):
            return dict(handle.stat(opened.rows))

    def close(self) -> None:
        """Nothing: the environment stays open for the next task of this process (`close_environments` ends that)."""


class _Place:
    """What one process has of one directory: the lock, and the environment that is open, if any."""

    def __init__(self, directory: Path, map_bytes: int, identity: str) -> None:
        self.directory = directory
        self.lock = cache_directory.WriteLock(directory)
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
                opened.users -= 1
                if opened.stale and not opened.users:
                    opened.close()

    def _current(self) -> Opened | None:
        """The open environment, taken into use, if it is that of the file now there."""
        with self._mutex:
            opened = self._opened
            if opened is None or opened.file != cache_directory.file_identity(self.directory):
                self.forget()
                return None
            opened.users += 1
            return opened

    def forget(self) -> None:
        """Close the environment as soon as no thread uses it; the next one checks the directory again."""
        with self._mutex:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.stale = True
                if not opened.users:
                    opened.close()

    def reset_after_fork(self) -> None:
        """Reset inherited state in a forked child."""
        opened, self._opened = self._opened, None
        self.lock, self._mutex = cache_directory.WriteLock(self.directory), threading.RLock()
        # One in use at the fork cannot be closed: its transaction belongs to a thread that the child has not.
        if opened is not None and not opened.users:
            opened.close()

    def _reopen(self) -> Opened:
        """Judge, wipe if need be, open. Needs the write lock."""
        with room.translate_os_errors(self.directory):
            presence, alone = cache_directory.join_users(self.directory)
            try:
                environment, handles = self._judged(alone)
            except BaseException:
                os.close(presence)
                raise
        with self._mutex:
            file = cache_directory.file_identity(self.directory)
            self._opened = opened = Opened(environment, *handles, file=file, presence=presence, users=1)
        _places.opened(self.directory, self._identity)
        return opened

    def _judged(self, alone: bool) -> tuple[lmdb.Environment, tuple[Any, Any]]:
        """An environment on a file that is whole: the existing one, or a new one."""
        expected = cache_directory.header(".".join(map(str, lmdb.version()[:2])), self._identity, self._map_bytes)
        reason = cache_directory.unusable(self.directory, expected)
        if reason is None and alone:
            # Should even reading it end this process, the next one finds the store marked unusable.
            cache_directory.mark_unusable(self.directory)
            reason = lmdb_file.trouble(self.directory / cache_directory.DATA, ROWS, BLOBS, (IDENTITY, self._identity))
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
        if reason is not None or alone:
            cache_directory.write_header(self.directory, expected)
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
            raise StoreDamaged(f"the local store {self.directory} is torn ({error}): it is built again") from error


def _begin_read(opened: Opened) -> lmdb.Transaction[bytes]:
    environment: lmdb.Environment = opened.environment
    try:
        return environment.begin()
    except lmdb.ReadersFullError:
        environment.reader_check()
    try:
        return environment.begin()
    except lmdb.ReadersFullError as error:
        raise StoreBusy("all of the local store's reader slots are taken: fewer tasks at once, please") from error


_places: Places[_Place] = Places()


def open_lmdb(directory: str | os.PathLike[str], limits: StoreLimits | None = None, identity: str = "") -> LmdbStore:
    """The store in ``directory``, which is made if it is not there.

    An existing store is discarded, with a warning, if it was made in another kernel boot, on another host, by another version,
    for another ``identity`` (for example query and operator), or is not whole.

    Raises:
        InvalidSettings: the map does not fit into this process's address space; or the directory is not writable.
        DiskFull: there is no room for it.
        StoreBusy: another process did not finish opening in a minute.
    """
    limits = limits or StoreLimits()
    path = Path(directory).resolve()
    with room.translate_os_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    place = _places.of(path, identity, lambda: _Place(path, limits.map_bytes_max, identity))
    with place.environment():
        pass
    return LmdbStore(place, limits)


def close_environments(directory: str | os.PathLike[str] | None = None) -> None:
    """Close what this process has open, in ``directory`` or everywhere; stores in use reopen by themselves."""
    _places.forget(None if directory is None else Path(directory).resolve())


def discard_environments(directory: str | os.PathLike[str]) -> None:
    """Close what this process has open in a directory that is about to be removed."""
    _places.discard(Path(directory).resolve())


# A forked child must not touch its parent's environments, nor their locks: it opens its own.
os.register_at_fork(after_in_child=_places.reset_after_fork)
