"""A query with a shelf of savepoints, whose targets are dictionaries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from awaiting import awaited
from savepoint_world import Query, Target

from binshift.savepoints import layout
from binshift.savepoints.requested import Requested
from binshift.savepoints.shelf import Shelf


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what a copy's thread brings about."""
    awaited(condition, bool, 30)


@contextmanager
def opened_world() -> Iterator[World]:
    """A world, whose copies end with it."""
    made = World()
    yield made
    made.open.set()
    made.shelf.close()


class World:
    """A query, its shelf, and targets by location, whose copies wait while they are closed."""

    def __init__(self) -> None:
        self.query = Query(1)
        for _ in range(3):
            self.query.epoch()
        self.targets: dict[str, Target] = {}
        self.open = threading.Event()
        self.open.set()
        self.now = 100.0
        self.shelf = self.new_shelf()

    def new_shelf(self) -> Shelf:
        return Shelf(self.query.source(), self.target, lambda: self.now)

    def target(self, location: str) -> Target:
        return self.targets.setdefault(location, Target(before=lambda name: self.open.wait(30)))

    def begin(self, name: str, location: str) -> None:
        """Request a savepoint; its copy waits with its first file until it is opened."""
        waiting = threading.Event()

        def wait(file: str) -> None:
            if file != layout.BEGUN:
                waiting.set()
                self.open.wait(30)

        self.open.clear()
        self.target(location).before = wait
        self.shelf.put(name, location)
        assert waiting.wait(30)

    def ended(self, name: str) -> Requested:
        found = self.shelf.get(name)
        wait_until(lambda: found.ended)
        return found
