"""The stateful queries of one Spark application, which share its executors.

Each query has its own log, stores, job pools and names, so the queries are independent. This module counts what they share:
the executors' task slots. It also prevents a program from starting one checkpoint twice, where the second driver would fence
the first before Spark can reject it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

from pyspark import SparkContext

from binshift.engine.ports import Executor
from binshift.errors import InvalidQuery, InvalidSettings
from binshift.model import Worker

SLOTS_PER_QUERY = 2
"""Per executor: one for the query's epoch, one for its background work, which must not wait for each other."""

STANDING_SLOTS_PER_QUERY = 3
"""Per executor, where the query has a standing task on it: its other jobs must not wait for each other either."""


class Running(Protocol):
    """The part of a running query that is needed here."""

    @property
    def isActive(self) -> bool: ...  # noqa: N802, D102 (PySpark's name)


@dataclass(eq=False)
class Neighbour:
    """A query that is starting or running.

    Attributes:
        query: its id.
        name: the name that the user gave it.
        running: None while it starts.
    """

    query: str
    name: str | None
    running: Running | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.running is not None and not self.running.isActive


@dataclass
class Neighbours:
    """All queries of one application; get it from `of`.

    Attributes:
        cpus_per_task: cores that each task takes.
    """

    cpus_per_task: int = 1
    _held: list[Neighbour] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, query: str, name: str | None, location: str) -> Neighbour:
        """Register a query that is about to start.

        Raises:
            InvalidQuery: it is already running, or another one has its name.
        """
        with self._lock:
            self._held = [each for each in self._held if not each.over]
            for each in self._held:
                if each.query == query:
                    raise InvalidQuery(
                        f"the query with the checkpoint {location} is already running in this application: stop it first, or give "
                        "this one a checkpoint of its own"
                    )
                if name is not None and each.name == name:
                    raise InvalidQuery(
                        f"a query named {name!r} is already running in this application: choose another queryName"
                    )
            entered = Neighbour(query, name)
            self._held.append(entered)
            return entered

    def leave(self, neighbour: Neighbour) -> None:
        """Remove a query that has ended, or did not start. May be called again."""
        with self._lock:
            self._held = [each for each in self._held if each is not neighbour]

    def check_slots(self, executors: Mapping[Worker, Executor]) -> None:
        """Reject one query more than executors have task slots for.

        Raises:
            InvalidSettings: there are too few.
        """
        check_slots(self._count(), executors.items(), self.cpus_per_task)

    def standing_cores(self) -> int:
        """The cores that an executor must have for a standing task of each of these queries."""
        return self._count() * STANDING_SLOTS_PER_QUERY * self.cpus_per_task

    def _count(self) -> int:
        with self._lock:
            return sum(not each.over for each in self._held)


def check_slots(queries: int, executors: Iterable[tuple[Worker, Executor]], cpus_per_task: int) -> None:
    """See `Neighbours.check_slots`.

    >>> check_slots(2, [(Worker(0), Executor("7", "127.0.0.2", 4))], 1)
    >>> check_slots(3, [(Worker(0), Executor("7", "127.0.0.2", 4))], 1)
    Traceback (most recent call last):
    ...
    binshift.errors.InvalidSettings: worker 0 has 4 task slots; 3 stateful queries need 6, 2 each: set spark.executor.cores to 6
    """
    wanted = queries * SLOTS_PER_QUERY
    for worker, executor in executors:
        slots = executor.cores // cpus_per_task
        if slots < wanted:
            raise InvalidSettings(
                f"worker {worker} has {slots} task slots; {queries} stateful queries need {wanted}, {SLOTS_PER_QUERY} each: "
                f"set spark.executor.cores to {wanted * cpus_per_task}"
            )


_applications: WeakKeyDictionary[SparkContext, Neighbours] = WeakKeyDictionary()
"""Queries that start by themselves have only their application in common."""
_lock = threading.Lock()


def of(context: SparkContext) -> Neighbours:
    """The queries of an application."""
    with _lock:
        if context not in _applications:
            _applications[context] = Neighbours(int(str(context.getConf().get("spark.task.cpus", "1"))))
        return _applications[context]
