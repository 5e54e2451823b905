"""The store on disk: LMDB, opened once per process and directory (`lmdb_place`), and sorted runs, which LMDB lists (`runs`).

It must never wait for LMDB's own writer lock (it has no time-out; binshift's is taken first), and never raise an untranslated
LMDB error: a full map is `StateTooLarge`, a full disk `DiskFull`, a torn file `StoreDamaged`, after which the next task to open
the directory wipes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from binshift.errors import StoreBusy
from binshift.store.engine import room
from binshift.store.engine.contract import StoreLimits, Transaction
from binshift.store.engine.layered_transaction import LayeredTransaction
from binshift.store.engine.lmdb_place import LmdbPlace, places
from binshift.store.engine.lmdb_transaction import LmdbTransaction, Opened
from binshift.store.engine.run_files import Removed


class LmdbStore:
    """A `KeyValueStore` in a directory of its own; `open_lmdb` makes one."""

    def __init__(self, place: LmdbPlace, limits: StoreLimits) -> None:
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
            handle, transaction = self._snapshot(opened)
            try:
                yield transaction
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
            with opened.presence.changing():
                handle = opened.environment.begin(write=True)
                try:
                    transaction = self._transaction(handle, opened, writable=True)
                    yield transaction
                    transaction.save()
                    handle.commit()
                except BaseException:
                    handle.abort()
                    raise
                transaction.tidy()

    def _transaction(self, handle: lmdb.Transaction[bytes], opened: Opened, *, writable: bool) -> LayeredTransaction:
        above = LmdbTransaction(handle, opened, self._limits, self.directory, writable=writable)
        return LayeredTransaction(above, self._place.runs, self._limits)

    def _snapshot(self, opened: Opened) -> tuple[lmdb.Transaction[bytes], LayeredTransaction]:
        """A snapshot whose runs are all mapped; a newer one if a writer has removed one of them since."""
        missed = None
        while True:
            handle = _begin_read(opened)
            try:
                return handle, self._transaction(handle, opened, writable=False)
            except Removed:
                now = handle.id()
                handle.abort()
                if now == missed:  # there is no newer one: the file is lost
                    raise
                missed = now
            except BaseException:
                handle.abort()
                raise

    def close(self) -> None:
        """Nothing: the environment stays open for the next task of this process (`close_environments` ends that)."""


def _begin_read(opened: Opened) -> lmdb.Transaction[bytes]:
    environment: lmdb.Environment = opened.environment
    try:
        return environment.begin()
    except lmdb.ReadersFullError:
        environment.reader_check()
    try:
        return environment.begin()
    except lmdb.ReadersFullError as error:
        raise StoreBusy("no free LMDB reader slot in the local store: lower spark.executor.cores") from error


def open_lmdb(directory: str | os.PathLike[str], limits: StoreLimits | None = None, identity: str = "") -> LmdbStore:
    """The store in ``directory``, which is made if it is not there.

    An existing store is discarded, with a warning, if it was made in another kernel boot, on another host, by another version,
    for another ``identity`` (for example query and operator), or is not whole; it is verified unless its last user left it cleanly.

    Raises:
        InvalidSettings: the map does not fit into this process's address space; or the directory is not writable.
        DiskFull: there is no room for it.
        StoreBusy: another process did not finish opening in a minute.
    """
    limits = limits or StoreLimits()
    path = Path(directory).resolve()
    with room.translate_os_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    place = places.of(path, identity, lambda: LmdbPlace(path, limits.map_bytes_max, identity))
    with place.environment():
        pass
    return LmdbStore(place, limits)


def close_environments(directory: str | os.PathLike[str] | None = None) -> None:
    """Close what this process has open, in ``directory`` or everywhere; stores in use reopen by themselves."""
    places.forget(None if directory is None else Path(directory).resolve())


def discard_environments(directory: str | os.PathLike[str]) -> None:
    """Close what this process has open in a directory that is about to be removed."""
    places.discard(Path(directory).resolve())
