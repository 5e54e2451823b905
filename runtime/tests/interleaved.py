"""Several drivers in one process, run step by step through every possible order of their steps.

A step ends at a failpoint. An order is a list of choices of the next driver; `every_order` starts from the beginning for each
order, so that no order sees what another one has left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

PATIENCE_SECONDS = 60.0

_here = threading.local()


@dataclass
class Walker:
    """One driver.

    Attributes:
        name: for messages.
        steps: its actions; raises to end early.
        at_one_go: whether it runs everything in one step.
        at: the failpoint where it waits.
        error: the error that ended it.
        done: whether it has ended.
    """

    name: str
    steps: Callable[[], None]
    at_one_go: bool = False
    at: str = "its beginning"
    error: Exception | None = None
    done: bool = False
    _go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _stands: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _thread: threading.Thread | None = None

    def step(self) -> None:
        """Continue to the next failpoint, or to the end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._walk, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        assert self._stands.acquire(timeout=PATIENCE_SECONDS), f"{self.name} hangs after {self.at}"
        if self.done:
            self._thread.join()

    def _walk(self) -> None:
        _here.walker = self
        try:
            self.steps()
        except Exception as error:  # any error: the test checks it
            self.error = error
        self.done = True
        self._stands.release()

    def wait(self, name: str) -> None:
        """Wait at a failpoint until it is this driver's turn again."""
        self.at = name
        self._stands.release()
        assert self._go.acquire(timeout=PATIENCE_SECONDS), f"{self.name} was left at {name}"


def reached(name: str) -> None:
    """Replaces `failpoints.reached`: ends a step of the driver that arrives here."""
    walker: Walker | None = getattr(_here, "walker", None)
    if walker is not None and not walker.at_one_go:
        walker.wait(name)


def every_order(
    begin: Callable[[], tuple[Sequence[Walker], Callable[[Sequence[str]], None]]], switches_max: int = 1000
) -> int:
    """Run all orders; returns their number.

    Args:
        begin: creates a new world: its drivers, and the check after each step, given the steps so far.
        switches_max: how often another driver may continue before the current one has ended.
    """
    played, order = 0, list[int]()
    while True:
        taken, alternatives = _play(*begin(), order, switches_max)
        played += 1
        while taken and taken[-1] + 1 == alternatives[-1]:
            taken.pop()
            alternatives.pop()
        if not taken:
            return played
        order = [*taken[:-1], taken[-1] + 1]


def _play(
    walkers: Sequence[Walker], check: Callable[[Sequence[str]], None], order: Sequence[int], switches: int
) -> tuple[list[int], list[int]]:
    taken, alternatives, history = list[int](), list[int](), list[str]()
    last: Walker | None = None
    while alive := sorted((each for each in walkers if not each.done), key=lambda each: each is not last):
        choice = order[len(taken)] if len(taken) < len(order) else 0
        taken.append(choice)
        going_on = alive[0] is last
        alternatives.append(len(alive) if switches or not going_on else 1)
        switches -= going_on and choice > 0
        last = alive[choice]
        last.step()
        history.append(f"{last.name} to {'the end' if last.done else last.at}")
        check(history)
    return taken, alternatives
