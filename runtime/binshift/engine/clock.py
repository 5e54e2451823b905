"""The engine's time: production uses the system's clock, the simulator one that it advances itself.

Both loops measure and wait by a `Clock` and never by the `time` module, so that a test decides how long everything takes.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """See the module."""

    def __call__(self) -> float:
        """Seconds that only grow."""

    def time(self) -> float:
        """Seconds since 1970, to be shown; nothing is decided by it."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until ``event`` is set, or for ``seconds``; whether it is set."""


class SystemClock:
    """The system's time."""

    def __call__(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def time(self) -> float:
        """See `Clock`."""
        return time.time()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """See `Clock`."""
        return event.wait(seconds)
