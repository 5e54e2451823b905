"""A query's checkpoint under tests of savepoints: a scripted log, Spark's files, and a target that lets the query continue while it is written."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from log_drivers import FORMAT, Driver
from log_worlds import DictStorage, Rows, World

from binshift.log.index.index import Index
from binshift.log.log import GRACE_SECONDS, Log
from binshift.log.storage.contract import Storage
from binshift.log.storage.folder import Folder
from binshift.log.tools.verification import Finding, verify
from binshift.model import BinSet, Epoch
from binshift.savepoints import layout
from binshift.savepoints.planning import Source
from binshift.savepoints.records import Savepoint
from binshift.savepoints.requested import Progress
from binshift.savepoints.restoring import checkpoint_id
from binshift.savepoints.saving import Saving

LOCATION = "/checkpoint"
BATCHES_KEPT = 8
"""Spark keeps a hundred."""


@dataclass
class Target(DictStorage):
    """Where a savepoint is written: before each file, something else happens.

    Attributes:
        before: called with the name.
    """

    before: Callable[[str], object] = lambda name: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        super().__init__()

    def put(self, name: str, data: bytes) -> None:
        with self._lock:
            self.before(name)
            super().put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        with self._lock:
            self.before(name)
            return super().put_if_absent(name, data)


class Query:
    """A query with state that moves, retention without mercy, and a source that compacts its own log in Spark's checkpoint."""

    def __init__(self, seed: int, grace: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.log_files = DictStorage()
        self.driver = Driver(self.log_files, seed)
        self.files = DictStorage()
        self.files.put(layout.METADATA, b'{"id":"q-1"}')
        self.driver.log._grace_seconds = grace
        self.now = 0.0

    @property
    def world(self) -> World:
        return self.driver.world

    def epoch(self) -> None:
        """One epoch, which Spark commits; perhaps a manifest, a snapshot cycle and a collection of garbage."""
        self.driver.epochs(1)
        last = self.driver.log.index.last
        self.files.put(f"offsets/{last}", json.dumps({"batchTimestampMs": 1000 * last}).encode())
        self.files.put(f"sources/0/{last}", b"files of %d" % last)
        if last % 3 == 2:
            self.files.put(f"sources/0/{last}.compact", b"all up to %d" % last)
            self.files.delete([f"sources/0/{each}" for each in range(last + 1)])
        self.files.put(f"commits/{last}", b"v1")
        self.files.delete([f"{folder}/{last - BATCHES_KEPT}" for folder in ("offsets", "commits")])
        if self.rng.random() < 0.4:
            self.driver.manifest()
        self.collect()

    def collect(self) -> None:
        """Delete all that retention names, at once."""
        for _ in range(2):
            self.now += GRACE_SECONDS
            self.driver.log.collect(spark_committed=self.driver.log.index.last, now=self.now)

    def restart(self) -> None:
        """Another driver opens the log."""
        self.driver = self.driver.successor()
        self.driver.log._grace_seconds = 0.0

    def source(self) -> Source:
        query = self.driver.log.format.query
        return Source(LOCATION, self.files, self.driver.log, checkpoint_id(self.files, query), "clicks")

    def save(self, target: Storage, name: str = "monday", stop: threading.Event | None = None) -> Savepoint:
        """Make a savepoint."""
        return Saving(self.source(), name, target, Progress(), stop or threading.Event()).run()


def opened(files: Storage, grace: float = GRACE_SECONDS) -> Log:
    """A new driver on the log of a savepoint, or of a checkpoint made of one."""
    committed = max(int(each.name.removeprefix("commits/")) for each in files.list("commits/"))
    return Log.on(Folder(files, layout.LOG), FORMAT, spark_committed=lambda: Epoch(committed), grace_seconds=grace)


def rows(world: World, storage: Storage, index: Index, operator: str, epoch: int) -> Rows:
    """The state of an operator, rebuilt from the files in ``storage``."""
    every = BinSet(range(world.bins))
    reader = World(storage, random.Random(0), bins=world.bins)
    return reader.rebuilt(index.sources(operator, every, {}, Epoch(epoch)), {})


def check(query: Query, files: Storage, epoch: int) -> None:
    """The copy opens at ``epoch``, and every bin has the query's rows of it, and those of the epoch before (I4)."""
    index = opened(files).index
    assert index.last == epoch
    for operator in query.world.operators:
        for to in (epoch, epoch - 1):
            if to >= max(index.base, query.world.first):
                assert (
                    rows(query.world, Folder(files, layout.LOG), index, operator, to)
                    == query.world.states[to][operator]
                )


def findings(files: Storage) -> list[Finding]:
    """What `binshift log verify` finds."""
    return verify(Folder(files, layout.LOG))
