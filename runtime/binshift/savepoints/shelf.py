"""The savepoints of a running query: requested, one copied at a time, removed.

It remembers what was requested in this run. A savepoint itself is at its location: after a restart of the driver the same request finds
it complete, or continues its copy. When the query ends, an unfinished one is pending again: only its next driver can continue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from binshift.errors import (
    BinshiftError,
    Fenced,
    InvalidSettings,
    LogError,
    NoQueryYet,
    NoSuchSnapshot,
    Retryable,
    SnapshotRefused,
    StorageUnavailable,
)
from binshift.log.storage.contract import Storage
from binshift.log.storage.locations import check_location, overlaps, same_location
from binshift.log.storage.opening import open_storage
from binshift.savepoints import records, removing
from binshift.savepoints.copying import CopyStopped
from binshift.savepoints.planning import Source, present
from binshift.savepoints.records import Savepoint
from binshift.savepoints.requested import Requested
from binshift.savepoints.saving import Saving
from binshift.savepoints.states import SavepointState

logger = logging.getLogger(__name__)

KEPT: Final = 100
"""Requests that are remembered; older ones are forgotten when they have ended. While all of these wait, another one is answered as pending,
and not remembered: it has to be repeated."""
STOP_SECONDS_MAX: Final = 25.0
"""How long a removal waits for the running copy: one part of each file that it copies."""
ANSWER_SECONDS: Final = 1.0
"""How long a first request waits for the answer that the savepoint is complete already."""
ENDED: Final = "the query has ended; the copy continues when its next driver gets the same request"


class Shelf:
    """Those of one query; any thread may call it.

    Args:
        source: the query.
        open_target: opens the storage at a location.
        now: seconds since 1970.
    """

    def __init__(
        self,
        source: Source,
        open_target: Callable[[str], Storage] = open_storage,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._source, self._open, self._now = source, open_target, now
        self._requests: OrderedDict[str, Requested] = OrderedDict()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, name: str, location: str) -> Requested:
        """Request a savepoint; a repeated request changes nothing. One that is pending has to be repeated: it can be one too many.

        Raises:
            SnapshotRefused: it was requested at another location.
            InvalidSettings: no savepoint can be at that location.
            NoQueryYet: the query has ended.
        """
        self._checked(location)
        with self._lock:
            self._check_open()
            known = self._requests.get(name)
        if known is None:
            known = self._add(Requested(name, location))
            known.checked.wait(ANSWER_SECONDS)
        if not same_location(known.location, location):
            raise SnapshotRefused(
                f"the snapshot {name!r} is at {known.location!r}, not at {location!r}: use another name"
            )
        return known

    def get(self, name: str) -> Requested:
        """A requested one.

        Raises:
            NoSuchSnapshot: it was not requested in this run.
        """
        with self._lock:
            known = self._requests.get(name)
        if known is None:
            raise NoSuchSnapshot(f"no snapshot {name!r} was requested since the driver has started")
        return known

    def newest(self) -> list[Requested]:
        """The newest ones that were requested, the newest last."""
        with self._lock:
            return list(self._requests.values())

    def remove(self, name: str, location: str | None) -> None:
        """End its copy, remove its files at ``location`` (None: as requested in this run) and forget it; may be called again.

        Raises:
            SnapshotRefused: the location has something else.
            InvalidSettings: the location is not known, or it cannot have a savepoint.
            StorageUnavailable: the copy has not ended yet, or the storage did not answer; repeat the call.
        """
        with self._lock:
            known = self._requests.get(name)
        if location is None and known is None:
            raise InvalidSettings(f"no snapshot {name!r} was requested since the driver has started: name its location")
        place = self._checked(location or (known.location if known else ""))
        same = known is not None and overlaps(known.location, place)  # links are followed
        if known is not None and same:
            self._end(known)
        removing.remove(self._open(place), name, self._source.checkpoint)
        if same:
            with self._lock:
                self._requests.pop(name, None)

    def close(self) -> None:
        """The query has ended: so do all copies. What is not complete is pending."""
        with self._lock:
            self._closed = True
            for each in self._requests.values():
                each.stop.set()
                if not each.ended:
                    each.reason = each.reason or ENDED

    def _checked(self, location: str) -> str:
        place = check_location(location)
        if overlaps(place, self._source.location):
            raise InvalidSettings(
                f"a snapshot cannot be at {location!r}: the checkpoint is {self._source.location!r}, and neither must be inside the other"
            )
        return place

    def _check_open(self) -> None:
        if self._closed:
            raise NoQueryYet("the query has ended: repeat the request once it runs again")

    def _complete(self, name: str, target: Storage) -> Savepoint | None:
        """The savepoint if the target has it already; a copy finds out what else it has."""
        try:
            found = records.complete(target)
            if found is None or (found.name, found.checkpoint) != (name, self._source.checkpoint):
                return None
            return found if len(present(found, target)) == len(found.files) else None
        except (Retryable, LogError):
            return None

    def _add(self, wanted: Requested) -> Requested:
        with self._lock:
            self._check_open()
            known = self._requests.get(wanted.name)
            if known is not None:
                return known
            while len(self._requests) >= KEPT:
                old = next((each for each in self._requests.values() if each.ended), None)
                if old is None:
                    wanted.reason = f"{KEPT} other snapshots are waiting: repeat the request until some are complete"
                    wanted.checked.set()
                    return wanted
                del self._requests[old.name]
            self._requests[wanted.name] = wanted
            if self._thread is not None:
                wanted.checked.set()  # when it is its turn
            else:
                self._thread = threading.Thread(target=self._work, name="binshift-snapshots", daemon=True)
                self._thread.start()
            return wanted

    def _end(self, known: Requested) -> None:
        """End its copy, for good."""
        with self._lock:
            known.stop.set()
            if not known.ended:
                known.state, known.reason = SavepointState.FAILED, "it was removed"
        if not known.idle.wait(STOP_SECONDS_MAX):
            raise StorageUnavailable(f"the copy of the snapshot {known.name!r} is still ending: repeat the request")

    def _work(self) -> None:
        """Copy one after the other, until none waits."""
        while (wanted := self._next()) is not None:
            try:
                self._copy(wanted)
            finally:
                wanted.checked.set()
                wanted.idle.set()

    def _next(self) -> Requested | None:
        with self._lock:
            waiting = (each for each in self._requests.values() if each.state is SavepointState.PENDING)
            wanted = None if self._closed else next(waiting, None)
            if wanted is None:
                self._thread = None
            else:
                wanted.state, wanted.started_at = SavepointState.COPYING, self._now()
                wanted.idle.clear()
            return wanted

    def _copy(self, wanted: Requested) -> None:
        try:
            target = self._open(check_location(wanted.location))
            found = self._complete(wanted.name, target)
            if found is None:
                wanted.checked.set()
                found = Saving(self._source, wanted.name, target, wanted.progress, wanted.stop).run()
        except CopyStopped:
            self._ended(wanted, SavepointState.PENDING, ENDED)
        except Fenced as error:
            self._ended(wanted, SavepointState.PENDING, str(error))
            self.close()
        except BinshiftError as error:
            logger.warning("the snapshot %s at %s failed: %s", wanted.name, wanted.location, error)
            self._ended(wanted, SavepointState.FAILED, str(error))
        except Exception as error:  # the edge of a thread: a bug must not leave a request that never ends
            logger.exception("the snapshot %s failed", wanted.name)
            self._ended(wanted, SavepointState.FAILED, f"a bug in binshift: {error!r}")
        else:
            wanted.progress.planned(found, found.files)
            self._ended(wanted, SavepointState.COMPLETE, "", found.finished_ms / 1000)
            logger.info("the snapshot %s of epoch %d is complete at %s", wanted.name, found.epoch, wanted.location)

    def _ended(self, wanted: Requested, state: SavepointState, reason: str, at: float | None = None) -> None:
        with self._lock:
            if wanted.state is SavepointState.FAILED:  # it was removed meanwhile
                return
            wanted.state, wanted.reason = state, reason
            wanted.finished_at = (at or self._now()) if wanted.ended else None
