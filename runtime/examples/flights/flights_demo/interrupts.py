"""Signals: the first one ends the demo, none disturbs its end.

An interrupt in the middle of cleaning up would leave processes behind. So a signal raises `KeyboardInterrupt` only until the
end has begun, be it by a signal or by itself.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def one_interrupt() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt, later ones do nothing; afterwards all is as before."""
    # What is ignored already (by `nohup`, or by a shell for jobs in the background) stays so.
    before = {each: signal.getsignal(each) for each in WATCHED if signal.getsignal(each) is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, _interrupt)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def no_more_interrupts() -> None:
    """The end has begun: signals do nothing until `one_interrupt` is over. Without effect outside of it."""
    for each in WATCHED:
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    no_more_interrupts()
    raise KeyboardInterrupt
