"""Drivers for tests of the log: each has a log, and a world that runs its epochs."""

from __future__ import annotations

import random
from pathlib import Path

from log_worlds import DictStorage, World

from binshift.log.log import Log
from binshift.log.records.commits import CommitRecord
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.storage.contract import Storage
from binshift.model import Epoch

COUNT = OperatorFormat("count", "f1", "count by user")


SESSIONS = OperatorFormat("sessions", "f2", "sessions by user")


FORMAT = LogFormat(bins=16, query="q-1", operators=(COUNT, SESSIONS))


class Driver:
    """A driver with its log, and a world that runs its epochs."""

    def __init__(
        self,
        storage: Storage | None = None,
        seed: int = 1,
        states: World | None = None,
        format: LogFormat = FORMAT,
    ) -> None:
        self.storage = storage or DictStorage()
        self.log = Log.on(self.storage, format, who=f"host {seed}")
        self.world = World(self.storage, random.Random(seed), term=self.log.term)
        if states is not None:
            self.world.states, self.world.routes = dict(states.states), dict(states.routes)
        self.world.index = self.log.index
        self.world.manifest = self.log.index.manifests[-1] if self.log.index.manifests else None

    def epoch(self) -> CommitRecord:
        """Run the next epoch and append its record."""
        counts = self.log.append(self.world.next_record())
        self.world.index = self.log.index
        return counts

    def epochs(self, count: int) -> None:
        """Run many epochs, with moves and complete snapshot cycles."""
        for _ in range(count):
            self.world.plan_moves(0.2)
            if self.world.index.records and self.world.rng.random() < 0.5:
                self.world.snapshot_all()
            self.epoch()

    def manifest(self) -> None:
        """Write a manifest; the next record names it."""
        self.log.write_manifest(self.log.index.last)
        self.world.manifest = self.log.index.last

    def successor(self) -> Driver:
        """The next driver on the same log."""
        return Driver(self.storage, seed=self.log.term + 1, states=self.world, format=self.log.format)

    def check(self) -> None:
        """Check that every bin can be rebuilt at the last epoch and at the previous one."""
        index = self.log.index
        for operator in index.operators:
            for to in (index.last, max(index.last - 1, index.base)):
                plan = index.sources(operator, self.world.random_bins(), {}, Epoch(to))
                assert self.world.rebuilt(plan, {}) == self.world.expected(operator, plan.bins, to)


def files_of(driver: Driver) -> dict[str, bytes]:
    """Everything in the driver's storage."""
    assert isinstance(driver.storage, DictStorage)
    return driver.storage.files


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file below ``root``."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
