"""What the control API needs of a query.

The API translates between HTTP and a `ControlService`, and knows nothing else; so it is tested with a made-up one. Every method
may be called by several threads at once. Reads take milliseconds and write nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from binshift.control.models import Bins, Dataflow, Migration, TargetRequest, WorkerLoad
from binshift.control.rebalancing import RebalanceRequest
from binshift.metrics import Observed
from binshift.metrics.measured import EpochMeasured
from binshift.model import Worker


class ControlService(Protocol):
    """A query, seen from outside."""

    def unready(self) -> str:
        """Why no epoch can run now; empty if one can: the query runs and at least one worker is registered."""

    def snapshot(self) -> Dataflow:
        """The dataflow as a whole."""

    def workers(self) -> Sequence[WorkerLoad]:
        """Every worker that owns bins, is registered or is desired, ascending."""

    def bins(self, worker: Worker | None, first: int, limit: int) -> Bins:
        """Up to ``limit`` bins from ``first`` on, those of ``worker`` only if one is named."""

    def migrations(self, limit: int) -> Sequence[Migration]:
        """The newest ones, newest last."""

    def migration(self, number: int) -> Migration:
        """One of them.

        Raises:
            NoSuchMigration: there is none of that number.
        """

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """Make ``wanted`` the desired target, durably; None if there is nothing to do.

        Raises:
            TargetOutdated: its owner has set a newer one.
            TargetOwned: an operator owns the target.
            MigrationRefused: it cannot be reached.
            Fenced, StorageUnavailable: this driver cannot accept it (now).
        """

    def rebalance(self, wanted: RebalanceRequest) -> Migration:
        """Share the bins by their load as it is now; whose the target is stays as it is.

        Raises:
            MigrationRefused: no load is known yet.
            Fenced, StorageUnavailable: this driver cannot accept it (now).
        """

    def drain(self, worker: Worker) -> Migration:
        """Move everything off ``worker``.

        Raises:
            DrainRefused: no other worker would remain, or the query is stopping.
        """

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        """Stop a migration; with ``rollback``, go back to where it began. Returns the one that leads back, or itself.

        Raises:
            NoSuchMigration: there is none of that number.
        """

    def stop(self) -> None:
        """Begin to stop after the running epoch; returns at once, and may be asked again."""

    def epochs(self) -> Sequence[EpochMeasured]:
        """The newest epochs, ascending, for the metrics."""

    def observed(self) -> Observed:
        """What is true now, for the metrics."""
