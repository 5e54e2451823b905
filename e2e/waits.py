"""Where the time of the stories goes: every long wait, with the story that it belongs to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONG_SECONDS = 8.0
SHOWN = 25
WORDS = 90
WAITS: list[tuple[float, str]] = []


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Note how long this took, if it was long."""
    begun = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - begun
        if took >= LONG_SECONDS:
            story = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2]
            WAITS.append((took, f"{story}: {what[:WORDS]}"))


def longest() -> list[str]:
    """The longest of them, for people."""
    return [f"{took:6.1f} s  {what}" for took, what in sorted(WAITS, reverse=True)[:SHOWN]]
