"""What answers for a program: its queries as the control API sees them.

The API translates between HTTP and a `ControlService`, and knows nothing else. A program without a query has one as well, the
base class: the API is up before the query. `query_service` is that of one query, `queries` that of several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from binshift.control.epoch_figures import Epochs, epochs_of
from binshift.control.models import Bins, Dataflow, LiveSettings, Migration, State, WorkerLoad
from binshift.control.placement import Placement
from binshift.control.requests import RebalanceRequest, SettingsRequest, TargetRequest
from binshift.control.savepoints import Snapshot
from binshift.engine.timings import EpochTimings
from binshift.errors import DrainRefused, NoQueryYet, NoSuchMigration, NoSuchSnapshot
from binshift.metrics import Observed
from binshift.model import BEFORE_FIRST, Worker

NOT_YET: Final = "the program has not started its query yet; ask again"


class Standby(Protocol):
    """A driver that may wait to be activated."""

    @property
    def active(self) -> bool:
        """Whether it has been."""
        ...

    def activate(self) -> None:
        """Make it the active driver; no effect if it is."""
        ...


class ControlService:
    """That of a program without a query, which refuses every write. Those with a query override all methods.

    Any number of threads may call every method. Reads take milliseconds and write nothing.

    Args:
        state: what the program does instead of running.
        reason: why, where that is known.
        known: further fields of the snapshot.
        stop: ends the program; None if it cannot be stopped without a query.
        standby: of a driver that can be a standby; None: it is active from the start.
    """

    _standby: Standby | None = None

    def __init__(
        self,
        state: State = State.LOADING,
        reason: str = "",
        stop: Callable[[], None] | None = None,
        standby: Standby | None = None,
        **known: object,
    ) -> None:
        self._placeholder = Dataflow(state=state, reason=reason).model_copy(update=known)
        self._stop = stop
        self._standby = standby

    def unready(self) -> str:
        """Why no epoch can run now; empty if one can: the query runs and at least one worker is registered.

        A standby is ready as soon as it can be activated.
        """
        seen = self._placeholder
        if seen.state is State.STANDBY:
            return ""
        if seen.state is State.LOADING and not seen.reason:
            return NOT_YET
        return f"{seen.state.value}{seen.reason and ': '}{seen.reason}"

    def snapshot(self) -> Dataflow:
        """The dataflow as a whole."""
        waits = self._standby is not None and not self._standby.active
        return self._placeholder.model_copy(update={"active": False}) if waits else self._placeholder

    def workers(self) -> Sequence[WorkerLoad]:
        """Every worker that owns bins, is registered or is desired, ascending."""
        return []

    def bins(self, worker: Worker | None, first: int, limit: int) -> Bins:
        """Up to ``limit`` bins from ``first`` on, those of ``worker`` only if one is named."""
        return Bins(epoch=BEFORE_FIRST, route_version=None, bins=[], next=None)

    def placement(self, first: int, limit: int) -> Placement:
        """The owners of up to ``limit`` bins from ``first`` on, and which of these bins move."""
        return Placement(epoch=BEFORE_FIRST, route_version=None, first=first, owners=[], moving=[], next=None)

    def newest_epochs(self, after: int, limit: int) -> Epochs:
        """The newest ``limit`` epochs of this run, only those after ``after``."""
        return epochs_of(self.epochs(), after, limit)

    def migrations(self, limit: int) -> Sequence[Migration]:
        """The newest ones, newest last."""
        return []

    def migration(self, number: int) -> Migration:
        """One of them.

        Raises:
            NoSuchMigration: there is none of that number.
        """
        raise NoSuchMigration(f"there is no migration {number}: {self.unready()}")

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """Make ``wanted`` the desired target, durably; None if there is nothing to do.

        Raises:
            TargetOutdated: its owner has set a newer one.
            TargetOwned: an operator owns the target.
            MigrationRefused: it cannot be reached.
            Fenced, StorageUnavailable, NoQueryYet: this driver cannot accept it (now).
        """
        raise NoQueryYet(self.unready())

    def rebalance(self, wanted: RebalanceRequest) -> Migration:
        """Share the bins by their load as it is now; whose the target is stays as it is.

        Raises:
            MigrationRefused: no load is known yet.
            Fenced, StorageUnavailable, NoQueryYet: this driver cannot accept it (now).
        """
        raise NoQueryYet(self.unready())

    def put_settings(self, wanted: SettingsRequest) -> LiveSettings:
        """Change settings while the query runs.

        Raises:
            NoQueryYet: it does not.
        """
        raise NoQueryYet(self.unready())

    def drain(self, worker: Worker) -> Migration:
        """Move everything off ``worker``.

        Raises:
            DrainRefused: no other worker would remain, the query is stopping, or there is none.
        """
        raise DrainRefused(f"worker {worker} has no bins: {self.unready()}")

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        """Stop a migration; with ``rollback``, go back to where it began. Returns the one that leads back, or itself.

        Raises:
            NoSuchMigration: there is none of that number.
        """
        return self.migration(number)

    def stop(self) -> None:
        """Begin to stop after the running epoch; returns at once, and can be called again.

        Raises:
            NoQueryYet: there is nothing to stop.
        """
        if self._stop is None:
            raise NoQueryYet(self.unready())
        self._stop()

    def activate(self) -> None:
        """Make this driver the active one: its program starts its queries. No effect if it is; returns at once."""
        if self._standby is not None:
            self._standby.activate()

    def savepoints(self) -> Sequence[Snapshot]:
        """The requested snapshots, the newest last."""
        return []

    def savepoint(self, name: str) -> Snapshot:
        """One of them.

        Raises:
            NoSuchSnapshot: it was not requested in this run.
        """
        raise NoSuchSnapshot(f"there is no snapshot {name!r}: {self.unready()}")

    def put_savepoint(self, name: str, location: str) -> Snapshot:
        """Request a snapshot.

        Raises:
            SnapshotRefused: it was requested at another location.
            InvalidSettings: no snapshot can be at that location.
            NoQueryYet: the query does not run.
        """
        raise NoQueryYet(self.unready())

    def remove_savepoint(self, name: str, location: str | None) -> None:
        """End a copy, and remove the files of a snapshot; a location of None is the requested one.

        Raises:
            SnapshotRefused: the location has something else.
            InvalidSettings: the location is not known, or it cannot have a snapshot.
            StorageUnavailable, NoQueryYet: repeat the call.
        """
        raise NoQueryYet(self.unready())

    def epochs(self) -> Sequence[EpochTimings]:
        """The newest epochs, ascending, for the metrics."""
        return []

    def observed(self) -> Observed:
        """What is true now, for the metrics."""
        return Observed(state=self._placeholder.state.flags())
