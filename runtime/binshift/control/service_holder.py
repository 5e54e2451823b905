"""Where a service is put once there is one: the API is up before the program has started its query.

Until then reads say ``Loading`` and writes are refused with "not yet", which a caller may repeat. A program's next query takes
the place of those that have ended, and stands beside those that run (`binshift.control.queries`). What they did together stays
known by its number, whichever queries come and go.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from binshift.control.contract import ControlService
from binshift.control.joint import JointHistory
from binshift.control.models import Bins, Dataflow, Migration, State, TargetRequest, WorkerLoad
from binshift.control.queries import Joint
from binshift.control.rebalancing import RebalanceRequest
from binshift.control.translation import states_of
from binshift.errors import DrainRefused, NoQueryYet, NoSuchMigration, NoSuchQuery
from binshift.metrics import Observed
from binshift.metrics.measured import EpochMeasured
from binshift.model import BEFORE_FIRST, Worker

NOT_YET = "the program has not started its query yet; ask again"


class NotStarted:
    """The service of a program that has no query yet, or whose program ended before it had one.

    Args:
        state: what it does instead of running.
        reason: why, where that is known.
    """

    def __init__(self, state: State = State.LOADING, reason: str = "") -> None:
        self._state, self._reason = state, reason

    def unready(self) -> str:
        """See `ControlService`."""
        return self._reason or NOT_YET

    def snapshot(self) -> Dataflow:
        """See `ControlService`."""
        return Dataflow(state=self._state, reason=self._reason)

    def workers(self) -> Sequence[WorkerLoad]:
        """See `ControlService`."""
        return []

    def bins(self, worker: Worker | None, first: int, limit: int) -> Bins:
        """See `ControlService`."""
        return Bins(epoch=BEFORE_FIRST, route_version=None, bins=[], next=None)

    def migrations(self, limit: int) -> Sequence[Migration]:
        """See `ControlService`."""
        return []

    def migration(self, number: int) -> Migration:
        """See `ControlService`."""
        raise NoSuchMigration(f"there is no migration {number}: {self.unready()}")

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """Always refused.

        Raises:
            NoQueryYet: always.
        """
        raise NoQueryYet(self.unready())

    def rebalance(self, wanted: RebalanceRequest) -> Migration:
        """Always refused, as `put_target`."""
        raise NoQueryYet(self.unready())

    def drain(self, worker: Worker) -> Migration:
        """Always refused: a worker of no query has nothing to give away."""
        raise DrainRefused(f"worker {worker} has no bins: {self.unready()}")

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        """As `migration`."""
        return self.migration(number)

    def stop(self) -> None:
        """Always refused, as `put_target`."""
        raise NoQueryYet(self.unready())

    def epochs(self) -> Sequence[EpochMeasured]:
        """See `ControlService`."""
        return []

    def observed(self) -> Observed:
        """See `ControlService`."""
        return Observed(state=states_of(self._state))


def _name(seen: Dataflow) -> str:
    return seen.name or seen.id or ""


def _runs_beside(seen: Dataflow, id: str | None) -> bool:
    return seen.state is State.RUNNING and seen.id != id


class ServiceHolder:
    """A service that hands everything on to the one it holds.

    Args:
        held: to begin with; by default that of a program that has no query yet.
    """

    def __init__(self, held: ControlService | None = None) -> None:
        self.held: ControlService = held or NotStarted()
        self._history = JointHistory()
        self._lock = threading.Lock()

    def fill(self, service: ControlService) -> None:
        """From now on, it is ``service`` that answers."""
        self.held = service

    def add(self, service: ControlService) -> Sequence[ControlService]:
        """``service`` answers, too; alone, if no other query runs. Returns all that do."""
        with self._lock:
            mine = service.snapshot().id
            kept = [each for each in self.each() if _runs_beside(each.snapshot(), mine)]
            self.held = Joint([*kept, service], self._history) if kept else service
            self._history.keep(self.each())
            return self.each()

    def each(self) -> Sequence[ControlService]:
        """Of each query."""
        held = self.held
        return held.services if isinstance(held, Joint) else (held,)

    def named(self) -> Mapping[str, ControlService]:
        """Of each query, by its name or else its id."""
        each = self.each()
        return {"": each[0]} if len(each) == 1 else {_name(service.snapshot()): service for service in each}

    def query(self, name: str) -> ControlService:
        """The query of that name, or of that id.

        Raises:
            NoSuchQuery: there is none; the message has those there are.
        """
        found = [(each, seen) for each in self.each() if (seen := each.snapshot()).id is not None]
        for service, seen in found:
            if name in (seen.name, seen.id):
                return service
        names = ", ".join(_name(seen) for _, seen in found)
        raise NoSuchQuery(f"the program has no query of that name or id; it has {names or 'none yet'}")

    def unready(self) -> str:
        """See `ControlService`."""
        return self.held.unready()

    def snapshot(self) -> Dataflow:
        """See `ControlService`."""
        return self.held.snapshot()

    def workers(self) -> Sequence[WorkerLoad]:
        """See `ControlService`."""
        return self.held.workers()

    def bins(self, worker: Worker | None, first: int, limit: int) -> Bins:
        """See `ControlService`."""
        return self.held.bins(worker, first, limit)

    def migrations(self, limit: int) -> Sequence[Migration]:
        """See `ControlService`."""
        return self.held.migrations(limit)

    def migration(self, number: int) -> Migration:
        """See `ControlService`."""
        return self._history.migration(number) if number in self._history else self.held.migration(number)

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """See `ControlService`."""
        return self.held.put_target(wanted)

    def rebalance(self, wanted: RebalanceRequest) -> Migration:
        """See `ControlService`."""
        return self.held.rebalance(wanted)

    def drain(self, worker: Worker) -> Migration:
        """See `ControlService`."""
        return self.held.drain(worker)

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        """See `ControlService`."""
        one = self._history if number in self._history else self.held
        return one.cancel(number, rollback=rollback)

    def stop(self) -> None:
        """See `ControlService`."""
        self.held.stop()

    def epochs(self) -> Sequence[EpochMeasured]:
        """See `ControlService`."""
        return self.held.epochs()

    def observed(self) -> Observed:
        """See `ControlService`."""
        return self.held.observed()
