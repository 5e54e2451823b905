"""A clock that moves only when it is told to, or looked at."""

from __future__ import annotations

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

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
