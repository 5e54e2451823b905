"""Whose log it is while its driver lives: a dataflow never starts on the log of another one that runs.

A driver that has an owner (on Kubernetes: the UID of its resource, in ``BINSHIFT_OWNER``) keeps one file in the log and
renews it every few seconds; it removes the file when it ends in order. A driver of another owner that finds the file
watches it: if it is renewed, the owner lives, and the newcomer is refused by name; if it is not for several beats,
the owner is gone. No clocks are compared, so none need agree.

This only prevents user errors. The term keeps state right: if both start after all (for example a driver that was suspended for
a minute), the older one is fenced as usual.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from binshift.errors import BinshiftError, Fenced, LogDamaged, LogFileMissing, LogOwned
from binshift.log.records import envelope, terms
from binshift.log.records.envelope import FORMAT_VERSION
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.model import Term

log = logging.getLogger(__name__)

OWNER_VARIABLE: Final = "BINSHIFT_OWNER"
"""Set by the creator of the driver: the dataflow it belongs to."""
BEAT_SECONDS: Final = 10.0
"""Between two renewals."""
WATCH_SECONDS: Final = 4 * BEAT_SECONDS
"""How long a newcomer watches before it believes that an owner is gone: several beats, as a store may be slow."""
LOOK_SECONDS: Final = 0.5
OWNER_BYTES_MAX: Final = 16 * 1024


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who lives on a log.

    Attributes:
        owner: the dataflow.
        term: of its driver.
        beat: counts renewals.
    """

    format: int = FORMAT_VERSION
    owner: str
    term: int
    beat: int


_decoder = msgspec.json.Decoder(Owner)


def read(storage: Storage) -> Owner | None:
    """The owner that uses the log, or was killed while it did; None if there is none.

    Raises:
        LogDamaged, ForeignLog: the file is not what it should be.
    """
    try:
        return envelope.decode(layout.OWNER, storage.get(layout.OWNER), _decoder, OWNER_BYTES_MAX)
    except LogFileMissing:
        return None


def await_release(
    storage: Storage,
    owner: str,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when no other owner lives on the log; that may take `WATCH_SECONDS`. Nothing is written.

    Raises:
        LogOwned: one does.
    """
    first = _readable(storage)
    if first is None or first.owner == owner:
        return
    log.warning(
        "the log at %s last belonged to dataflow %s: waiting to see whether it still runs", storage.url, first.owner
    )
    until = clock() + WATCH_SECONDS
    while clock() < until:
        sleep(LOOK_SECONDS)
        now = _readable(storage)
        if now is None or now.owner == owner:
            return
        if now != first:
            raise LogOwned(
                f"the log at {storage.url} belongs to dataflow {now.owner}, which is running (driver term {now.term}); "
                f"this is {'dataflow ' + owner if owner else 'a program without an owner'}. Delete or suspend that one "
                "first, or give this one another checkpoint"
            )


class Heartbeat:
    """Renews the owner's file on a thread of its own; does nothing for a driver without an owner.

    Args:
        storage: the log's.
        owner: the dataflow; empty for none.
        term: this driver's.
    """

    def __init__(self, storage: Storage, owner: str, term: Term) -> None:
        self._storage, self._owner, self._term = storage, owner, term
        self._count = 0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Heartbeat:
        """Report once that the owner is alive, and keep reporting it. Errors as `Storage.put`."""
        if self._owner:
            self.once()
            self._thread = threading.Thread(target=self._loop, name="binshift-owner", daemon=True)
            self._thread.start()
        return self

    def once(self) -> None:
        """Renew the file.

        Raises:
            Fenced: another driver has taken over, and its file is left alone.
            StorageUnavailable: it was not renewed; try again.
        """
        terms.check_newest(self._storage, self._term)
        self._count += 1
        mine = Owner(owner=self._owner, term=self._term, beat=self._count)
        self._storage.put(layout.OWNER, envelope.encode(layout.OWNER, mine, OWNER_BYTES_MAX))

    def stop(self) -> None:
        """Report that the owner is gone, so that the next one need not wait. May be called again."""
        if self._thread is None or self._stopped.is_set():
            return
        self._stopped.set()
        self._thread.join()
        try:
            found = _readable(self._storage)
            if found is not None and (found.owner, found.term) == (self._owner, self._term):
                self._storage.delete([layout.OWNER])
        except BinshiftError as error:
            log.warning("the log still names its owner, so the next driver waits %.0f s: %s", WATCH_SECONDS, error)

    def _loop(self) -> None:
        while not self._stopped.wait(BEAT_SECONDS):
            try:
                self.once()
            except Fenced:
                return  # the epoch's thread learns the same, and stops the query
            except BinshiftError as error:
                log.warning("the owner of the log could not be renewed: %s", error)


def _readable(storage: Storage) -> Owner | None:
    """As `read`; an invalid file names no owner."""
    try:
        return read(storage)
    except LogDamaged as error:
        log.warning("%s", error)
        return None
