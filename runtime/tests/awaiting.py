"""Waits for conditions that other processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def awaited(observe: Callable[[], Any], wanted: Callable[[Any], bool], seconds: float) -> Any:
    """The result of ``observe``, as soon as it is ``wanted``; fails with the last result after this many seconds."""
    deadline = time.monotonic() + seconds
    while not wanted(seen := observe()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    return seen
