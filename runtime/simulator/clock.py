"""A clock that advances only on request, or when it is read."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass
class ManualClock:
    """Seconds that never decrease.

    Attributes:
        now: seconds since it was created.
        tick_seconds: how far each reading advances it, so that budgets run out.
    """

    now: float = 0.0
    tick_seconds: float = 0.0

    def __call__(self) -> float:
        """The current time; advances by a tick."""
        self.now += self.tick_seconds
        return self.now

    def time(self) -> float:
        """Seconds since 1970, by this clock."""
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Advance the time, unless ``event`` is already set; whether it is."""
        if not event.is_set():
            self.sleep(seconds)
        return event.is_set()

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.now += seconds
