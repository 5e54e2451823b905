"""Waiting for what others do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def awaited(look: Callable[[], Any], wanted: Callable[[Any], bool], seconds: float) -> Any:
    """What ``look`` gives, as soon as it is ``wanted``; fails with it after so many seconds."""
    deadline = time.monotonic() + seconds
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    return seen
