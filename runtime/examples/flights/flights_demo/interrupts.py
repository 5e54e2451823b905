"""Signals: the first one ends the demo, none disturbs its end.

An interrupt in the middle of cleaning up would leave processes behind. So a signal raises `KeyboardInterrupt` only until the
end has begun, be it by a signal or by itself.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from binshift.hosting.processes import WATCHED, handled_signals


@contextmanager
def one_interrupt() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt, later ones do nothing; afterwards all is as before."""
    with handled_signals(_interrupt):
        yield


def no_more_interrupts() -> None:
    """The end has begun: signals do nothing until `one_interrupt` is over. Without effect outside of it."""
    for each in WATCHED:
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    no_more_interrupts()
    raise KeyboardInterrupt
