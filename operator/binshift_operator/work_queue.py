"""A rate-limited work queue of dataflows: each key is in it at most once, and is processed by one thread at a time.

A key that is added while it is processed is due again right afterwards, so no event is lost. If more keys are due than threads can
process, turns alternate between the key that was added first and the key that has been due for longest. So an edit does not wait behind
periodic reconciliations, and events do not starve them. A key that fails is retried with exponential backoff. The clock is an argument;
the caller owns the threads.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from binshift.backoff import backoff_seconds

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace and name."""

BACKOFF_SECONDS: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 20.0


@dataclass
class WorkQueue:
    """The queue. The caller of `get` must call `forget` or `add_rate_limited` for the key afterwards.

    Attributes:
        clock: monotonic seconds.
        jitter: a number from 0 to 1; spreads the retries after a failure of the API server.
    """

    clock: Callable[[], float]
    jitter: Callable[[], float] = random.random
    _due: dict[ObjectKey, float] = field(default_factory=dict)
    _processing: set[ObjectKey] = field(default_factory=set)
    _dirty: set[ObjectKey] = field(default_factory=set)
    _added: dict[ObjectKey, None] = field(default_factory=dict)
    _added_next: bool = True
    _failures: dict[ObjectKey, int] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _shutting_down: bool = False

    def add(self, key: ObjectKey) -> None:
        """Make a key due now, or right after it has been processed."""
        with self._changed:
            if key in self._processing:
                self._dirty.add(key)
            else:
                self._add(key)
                self._changed.notify()

    def add_missing(self, keys: set[ObjectKey]) -> None:
        """Add the keys that are neither queued nor processed; the others keep their times."""
        with self._changed:
            for key in keys - self._due.keys() - self._processing:
                self._due[key] = self.clock()
            self._changed.notify_all()

    def get(self, timeout_seconds: float) -> ObjectKey | None:
        """The next key that is due; None if no key becomes due in time, or the queue is shut down."""
        deadline = self.clock() + timeout_seconds
        with self._changed:
            while not self._shutting_down:
                now = self.clock()
                key = self._next()
                if key is not None and self._due[key] <= now:
                    self._added.pop(key, None)
                    self._added_next = not self._added_next
                    del self._due[key]
                    self._processing.add(key)
                    return key
                until = min(deadline, self._due[key]) if key is not None else deadline
                if now >= deadline:
                    return None
                self._changed.wait(max(0.0, until - now))
        return None

    def forget(self, key: ObjectKey, requeue_after: float | None) -> None:
        """Clear a key's failures, and requeue it after so many seconds; None: drop it."""
        with self._changed:
            self._failures.pop(key, None)
            self._finish(key, requeue_after)

    def add_rate_limited(self, key: ObjectKey, delay_seconds_min: float = 0.0) -> None:
        """Count a failure of a key, and requeue it with exponential backoff."""
        with self._changed:
            failures = self._failures.get(key, 0) + 1
            self._failures[key] = failures
            delay = backoff_seconds(failures, BACKOFF_SECONDS, BACKOFF_SECONDS_MAX)
            self._dirty.discard(key)
            self._finish(key, max(delay * (0.5 + 0.5 * self.jitter()), delay_seconds_min))

    def shut_down(self) -> None:
        """Make every `get` return None, now and from now on."""
        with self._changed:
            self._shutting_down = True
            self._changed.notify_all()

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` was called."""
        return self._shutting_down

    def _add(self, key: ObjectKey) -> None:
        now = self.clock()
        # A key that is already due keeps its turn; otherwise repeated events would defer it forever.
        due = self._due.setdefault(key, now)
        # After a failure, an event does not shorten the backoff; otherwise every event would be a retry.
        if not self._failures.get(key):
            self._due[key] = min(due, now)
            self._added.setdefault(key)

    def _next(self) -> ObjectKey | None:
        if self._added and self._added_next:
            return next(iter(self._added))
        return min(self._due, key=self._due.__getitem__, default=None)

    def _finish(self, key: ObjectKey, requeue_after: float | None) -> None:
        self._processing.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self._add(key)
        elif requeue_after is not None:
            self._due[key] = self.clock() + requeue_after
        self._changed.notify()
