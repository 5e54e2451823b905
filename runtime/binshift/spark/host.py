"""The process that runs a user's program, and how it gets to know the program's queries.

A program starts its queries by PySpark's own calls, which have no argument for a host. So the process that runs the program
names its host for as long as it does, and `writer` passes it to `query.start`; without one, the host is the program itself.
It must never outlive the program: `hosting` restores the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from binshift.model import Worker


@dataclass(frozen=True)
class Host:
    """What a host does for a query that starts.

    Attributes:
        recorded: called before executors are awaited, with the workers that hold the bins by the log: the first epoch needs them.
        started: called with the query.
    """

    recorded: Callable[[frozenset[Worker]], object] = lambda workers: None
    started: Callable[[Any], object] = lambda query: None


_hosts = [Host()]


def current() -> Host:
    """The host of this process."""
    return _hosts[-1]


@contextmanager
def hosting(host: Host) -> Iterator[None]:
    """Queries that start meanwhile, in any thread, are the host's."""
    _hosts.append(host)
    try:
        yield
    finally:
        _hosts.remove(host)
