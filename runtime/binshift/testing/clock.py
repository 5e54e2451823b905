"""A clock that moves only when it is told to, or looked at."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass
class ManualClock:
    """Seconds that only grow.

    Attributes:
        now: seconds since it was made.
        tick_seconds: by how much each look moves it, so that budgets run out.
    """

    now: float = 0.0
    tick_seconds: float = 0.0

    def __call__(self) -> float:
        """Look at it."""
        self.now += self.tick_seconds
        return self.now

    def time(self) -> float:
        """Seconds since 1970, by this clock."""
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Let time pass, unless ``event`` is set already; whether it is."""
        if not event.is_set():
            self.sleep(seconds)
        return event.is_set()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
