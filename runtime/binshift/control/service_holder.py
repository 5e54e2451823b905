"""Which service answers: the API is up before the program has started its query, and queries come and go.

A program's next query replaces ended ones, and is served in addition to running ones (`binshift.control.queries`). Joint
migrations remain known by their numbers, whichever queries end.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from binshift.control.joint import JointHistory
from binshift.control.models import Dataflow, State
from binshift.control.queries import JointService
from binshift.control.services import ControlService
from binshift.errors import NoSuchQuery


class ServiceHolder:
    """Holds the service of a program.

    Attributes:
        current: what answers now; to begin with, that of a program that has no query yet.
    """

    def __init__(self, current: ControlService | None = None) -> None:
        self.current = current or ControlService()
        self._history = JointHistory()
        self._lock = threading.Lock()

    def add(self, service: ControlService) -> Sequence[ControlService]:
        """``service`` answers, too; alone, if no other query runs. Returns all that do."""
        with self._lock:
            mine = service.snapshot().id
            kept = [each for each in self.each() if _runs_concurrently(each.snapshot(), mine)]
            self.current = JointService([*kept, service], self._history) if kept else service
            self._history.keep(self.each())
            return self.each()

    def each(self) -> Sequence[ControlService]:
        """The services of single queries."""
        current = self.current
        return current.services if isinstance(current, JointService) else (current,)

    def named(self) -> Mapping[str, ControlService]:
        """The services of single queries, by name or else id."""
        each = self.each()
        return {"": each[0]} if len(each) == 1 else {_name(service.snapshot()): service for service in each}

    def query(self, name: str) -> ControlService:
        """The service of the query of that name, or of that id.

        Raises:
            NoSuchQuery: there is none; the message lists the queries.
        """
        found = [(each, seen) for each in self.each() if (seen := each.snapshot()).id is not None]
        for service, seen in found:
            if name in (seen.name, seen.id):
                return service
        names = ", ".join(_name(seen) for _, seen in found)
        raise NoSuchQuery(f"the program has no query of that name or id; it has {names or 'none yet'}")

    def of_migration(self, number: int) -> ControlService | JointHistory:
        """What knows the migration of that number, if anything does."""
        return self._history if number in self._history else self.current


def _name(seen: Dataflow) -> str:
    return seen.name or seen.id or ""


def _runs_concurrently(seen: Dataflow, id: str | None) -> bool:
    return seen.state is State.RUNNING and seen.id != id
