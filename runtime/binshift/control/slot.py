"""Where a surface is put once there is one: the API is up before the program has started its query.

Until then reads say ``Loading`` and writes are refused with "not yet", which a caller may repeat. One program has one
stateful query, so a slot is filled once, or again by the query that replaces one that has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from binshift.control.contract import Surface
from binshift.control.models import Bins, Dataflow, Migration, State, TargetRequest, WorkerLoad
from binshift.control.translation import states_of
from binshift.errors import DrainRefused, NoQueryYet, NoSuchMigration
from binshift.metrics import Observed
from binshift.metrics.measured import EpochMeasured
from binshift.model import BEFORE_FIRST, Worker

NOT_YET = "the program has not started its query yet; ask again"


class NoQuery:
    """The surface of a program that has no query yet, or whose program ended before it had one.

    Args:
        state: what it does instead of running.
        reason: why, where that is known.
    """

    def __init__(self, state: State = State.LOADING, reason: str = "") -> None:
        self._state, self._reason = state, reason

    def unready(self) -> str:
        """See `Surface`."""
        return self._reason or NOT_YET

    def snapshot(self) -> Dataflow:
        """See `Surface`."""
        return Dataflow(state=self._state, reason=self._reason)

    def workers(self) -> Sequence[WorkerLoad]:
        """See `Surface`."""
        return []

    def bins(self, worker: Worker | None, first: int, limit: int) -> Bins:
        """See `Surface`."""
        return Bins(epoch=BEFORE_FIRST, route_version=None, bins=[], next=None)

    def migrations(self, limit: int) -> Sequence[Migration]:
        """See `Surface`."""
        return []

    def migration(self, number: int) -> Migration:
        """See `Surface`."""
        raise NoSuchMigration(f"there is no migration {number}: {self.unready()}")

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """Always refused.

        Raises:
            NoQueryYet: always.
        """
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
        """See `Surface`."""
        return []

    def observed(self) -> Observed:
        """See `Surface`."""
        return Observed(state=states_of(self._state))


class Slot:
    """A surface that hands everything on to the one it holds."""

    def __init__(self) -> None:
        self.held: Surface = NoQuery()

    def fill(self, surface: Surface) -> None:
        """From now on, it is ``surface`` that answers."""
        self.held = surface

    def unready(self) -> str:
        """See `Surface`."""
        return self.held.unready()

    def snapshot(self) -> Dataflow:
        """See `Surface`."""
        return self.held.snapshot()

    def workers(self) -> Sequence[WorkerLoad]:
        """See `Surface`."""
        return self.held.workers()

    def bins(self, worker: Worker | None, first: int, limit: int) -> Bins:
        """See `Surface`."""
        return self.held.bins(worker, first, limit)

    def migrations(self, limit: int) -> Sequence[Migration]:
        """See `Surface`."""
        return self.held.migrations(limit)

    def migration(self, number: int) -> Migration:
        """See `Surface`."""
        return self.held.migration(number)

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """See `Surface`."""
        return self.held.put_target(wanted)

    def drain(self, worker: Worker) -> Migration:
        """See `Surface`."""
        return self.held.drain(worker)

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        """See `Surface`."""
        return self.held.cancel(number, rollback=rollback)

    def stop(self) -> None:
        """See `Surface`."""
        self.held.stop()

    def epochs(self) -> Sequence[EpochMeasured]:
        """See `Surface`."""
        return self.held.epochs()

    def observed(self) -> Observed:
        """See `Surface`."""
        return self.held.observed()
