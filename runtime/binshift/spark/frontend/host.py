"""The process that runs a user's program, and how it gets the program's queries.

A program starts its queries with PySpark's own calls, which have no argument for a host. The process that runs the program
therefore registers its host while the program runs, and `writer` passes it to `query.start`; without one, the host is the program
itself. A host must never outlive the program: `hosting` restores the previous one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from binshift.model import Worker


@dataclass(frozen=True)
class Host:
    """The calls of a host for a query that starts.

    Attributes:
        admitted: called with the application's id and a number of seconds before a query reads or writes its checkpoint: whether it
            can within that time, or, for None, once it can. In a standby driver it can when that is activated.
        rehearsed: called while a standby waits, with the workers whose executors have rehearsed the program.
        recorded: called before executors are awaited, with the workers that own bins in the log: the first epoch needs them.
        started: called with the query.
    """

    admitted: Callable[[str, float | None], bool] = lambda application, seconds: True
    rehearsed: Callable[[frozenset[Worker]], object] = lambda workers: None
    recorded: Callable[[frozenset[Worker]], object] = lambda workers: None
    started: Callable[[Any], object] = lambda query: None


_hosts = [Host()]


def current() -> Host:
    """The host of this process."""
    return _hosts[-1]


@contextmanager
def hosting(host: Host) -> Iterator[None]:
    """Set the host of queries that start in this context, in any thread."""
    _hosts.append(host)
    try:
        yield
    finally:
        _hosts.remove(host)
