"""When to look at which dataflow: a queue in which each has one place, whoever wakes it, and is looked at by one thread at a time.

A wake-up during a look leads to another look right after it, so none is lost. Where more are due than threads can look at, every second
turn is of whoever was woken first, and the others go to whoever has been due for longest: an edit is not kept waiting by those that
only wait, nor are they by edits. Failures are followed by longer and longer
waits. The clock is an argument, threads are the caller's.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Place: TypeAlias = tuple[str, str]
"""Namespace and name."""

BACKOFF_SECONDS: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 20.0


@dataclass
class Schedule:
    """The queue.

    Attributes:
        clock: seconds, that only go forward.
        jitter: a number from 0 to 1, so that not all come at once after a failure of the API server.
    """

    clock: Callable[[], float]
    jitter: Callable[[], float] = random.random
    _due: dict[Place, float] = field(default_factory=dict)
    _busy: set[Place] = field(default_factory=set)
    _woken: set[Place] = field(default_factory=set)
    _urgent: dict[Place, None] = field(default_factory=dict)
    _urgent_next: bool = True
    _failures: dict[Place, int] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False

    def wake(self, place: Place) -> None:
        """Look at it now; right after the look under way, if there is one."""
        with self._changed:
            if place in self._busy:
                self._woken.add(place)
            else:
                self._hurry(place)
                self._changed.notify()

    def known(self, places: set[Place]) -> None:
        """These are all there are: look at those not known yet."""
        with self._changed:
            for place in places - self._due.keys() - self._busy:
                self._due[place] = self.clock()
            self._changed.notify_all()

    def take(self, wait_seconds: float) -> Place | None:
        """The next one that is due, or None if none is within that time. The caller must call `done` or `failed`."""
        deadline = self.clock() + wait_seconds
        with self._changed:
            while not self._closed:
                now = self.clock()
                place = self._first()
                if place is not None and self._due[place] <= now:
                    self._urgent.pop(place, None)
                    self._urgent_next = not self._urgent_next
                    del self._due[place]
                    self._busy.add(place)
                    return place
                until = min(deadline, self._due[place]) if place is not None else deadline
                if now >= deadline:
                    return None
                self._changed.wait(max(0.0, until - now))
        return None

    def done(self, place: Place, again_seconds: float | None) -> None:
        """It was looked at; look again in so many seconds, or never if there is nothing to look at."""
        with self._changed:
            self._failures.pop(place, None)
            self._leave(place, again_seconds)

    def failed(self, place: Place, least_seconds: float = 0.0) -> None:
        """The look failed: look again, later each time, and not before so many seconds."""
        with self._changed:
            failures = self._failures.get(place, 0) + 1
            self._failures[place] = failures
            wait = min(BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10), BACKOFF_SECONDS_MAX)
            self._woken.discard(place)
            self._leave(place, max(wait * (0.5 + 0.5 * self.jitter()), least_seconds))

    def close(self) -> None:
        """No more looks."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether there will be no more looks."""
        return self._closed

    def _hurry(self, place: Place) -> None:
        now = self.clock()
        # Who is due already keeps its turn, or events that come again and again would put it off for ever.
        due = self._due.setdefault(place, now)
        # After failures, an event is no reason to hurry: the wait stands, or every event would be a try.
        if not self._failures.get(place):
            self._due[place] = min(due, now)
            self._urgent.setdefault(place)

    def _first(self) -> Place | None:
        if self._urgent and self._urgent_next:
            return next(iter(self._urgent))
        return min(self._due, key=self._due.__getitem__, default=None)

    def _leave(self, place: Place, again_seconds: float | None) -> None:
        self._busy.discard(place)
        woken = place in self._woken
        self._woken.discard(place)
        if woken:
            self._hurry(place)
        elif again_seconds is not None:
            self._due[place] = self.clock() + again_seconds
        self._changed.notify()
