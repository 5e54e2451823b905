"""Signals as events: the first asks for an end in order, the second for a quick one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

WATCHED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Interrupts:
    """Signals that arrived: the first asks for an end in order, the second for a quick one."""

    seen: int = 0
    event: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count signals instead of dying of them; afterwards all is as before."""
        # What is ignored already (by `nohup`, or by a shell for jobs in the background) stays so.
        before = {each: signal.getsignal(each) for each in WATCHED if signal.getsignal(each) is not signal.SIG_IGN}
        for each in before:
            signal.signal(each, self._note)
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen += 1
        self.event.set()
