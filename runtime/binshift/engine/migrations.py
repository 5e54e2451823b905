"""A migration as its requester sees it: its conditions, the request, its progress, its result.

Made by `MigrationController`; shared between the requesting thread and the threads that carry it out. It is read-only: the
query cancels a migration.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from binshift.engine.migration_options import MigrationOptions
from binshift.errors import InvalidSettings, MigrationRefused
from binshift.migration import Limits, MigrationState, Phase, Progress, Rates, progress
from binshift.model import Bin, IntArray, Term, Worker
from binshift.planner import TOLERATED, Weights, balanced_route, target_route
from binshift.routing import Route

NOTHING_TO_MOVE = "nothing had to move: the bins are already balanced"

HISTORY_MAX = 100
"""Migrations that are remembered: each holds its whole plan."""
MIGRATIONS_A_TERM = 10_000
"""Numbers set aside for each driver's term."""
LOOK_SECONDS = 1.0  # how often a waiter for a migration checks that the query still runs


@dataclass(frozen=True)
class MigrationPolicy:
    """Under what terms bins move.

    Attributes:
        bins: how many there are.
        workers: how many a new query starts with; None: all that are registered.
        limits: of a migration.
        duty: share of a core that the background tasks of a worker may use at first, in each migration.
        snapshot_cycle_epochs: epochs in which every bin is snapshotted once.
        latency_target_seconds: record latency to stay below while bins move; None: a little above that of calm epochs.
        epochs_per_second: the most that count for snapshots, manifests and collections of garbage; see `Rhythm`.
        standby_replicas: copies of each bin that are kept for the loss of its worker, 0 or 1.
    """

    bins: int
    workers: int | None = None
    limits: Limits = field(default_factory=Limits)
    duty: float = 0.2
    snapshot_cycle_epochs: int = 64
    latency_target_seconds: float | None = None
    epochs_per_second: float | None = None
    standby_replicas: int = 0

    def first_workers(self, alive: Collection[Worker]) -> list[Worker]:
        """Who owns the bins in a new query's first epoch.

        Raises:
            InvalidSettings: fewer workers are registered than the query starts with.
        """
        wanted = len(alive) if self.workers is None else self.workers
        workers = sorted(alive)[:wanted]
        if not workers or len(workers) < wanted:
            raise InvalidSettings(
                f"the query starts with {wanted} workers, but the registered ones are {sorted(alive)}"
            )
        return workers


@dataclass(frozen=True)
class Request:
    """What a migration must reach, and how.

    Attributes:
        workers: the workers that share the bins; None to leave all bins in place, except for ``moves``.
        moves: single bins with their new workers.
        options: how they move.
        only_leaving: leave every bin where it is, but for those of workers that are not among ``workers``.
        weights: the load of every bin, by which ``workers`` share them; None: all count the same.
        tolerated: load above the mean, as a fraction of it, for which no bin moves.
        generation: of the target that requires it; None if none does.
    """

    workers: tuple[Worker, ...] | None = None
    moves: Mapping[Bin, Worker] = field(default_factory=dict)
    options: MigrationOptions = field(default_factory=MigrationOptions)
    only_leaving: bool = False
    weights: Weights | None = field(default=None, compare=False)
    tolerated: float = TOLERATED
    generation: int | None = None

    def target(self, route: Route) -> Route:
        """The requested route, computed from the present one.

        Raises:
            MigrationRefused: there is no such bin, or no worker.
        """
        wrong = [b for b in self.moves if not 0 <= b < route.bins]
        if wrong:
            raise MigrationRefused(f"there is no bin {wrong[0]}: bins are 0 to {route.bins - 1}")
        negative = [w for w in (*(self.workers or ()), *self.moves.values()) if w < 0]
        if negative:
            raise MigrationRefused(f"there is no worker {negative[0]}: workers are numbered from 0")
        target = route
        if self.workers is not None:
            if self.only_leaving:
                target = target_route(route, self.workers, self.weights, slack=math.inf)
            else:
                target = balanced_route(route, self.workers, self.weights, self.tolerated)
        return target.moved(target.moves_to(self.moves)) if self.moves else target


class Migration:
    """One accepted migration.

    Attributes:
        started_at: time of the request, in seconds since 1970.
        ended_at: when it ended; None while it has not.
    """

    def __init__(
        self,
        number: int,
        request: Request,
        cancel: Callable[[Migration, str], None],
        running: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.id = number
        self.started_at = now()
        self.ended_at: float | None = None
        self.request = request
        self.destinations: IntArray = np.zeros(0, dtype=np.int32)
        self.rates = Rates()
        self._cancel = cancel
        self._running = running
        self._now = now
        self._state: MigrationState | None = None
        self._refused = ""
        self._changed = threading.Condition()

    @property
    def state(self) -> MigrationState | None:
        """The machine's state; None while it has not begun."""
        return self._state

    @property
    def phase(self) -> Phase:
        """Where it is."""
        if self._refused:
            return Phase.CANCELLED
        return Phase.PLANNED if self._state is None else self._state.phase

    @property
    def status(self) -> str:
        """The phase as one word: planned, warming, copying, flipping, settled, cancelled, failed."""
        return self.phase.value

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.phase.ended

    @property
    def reason(self) -> str:
        """Why it ended differently than requested, or without a move."""
        if self._refused or self._state is None:
            return self._refused
        idle = self.phase is Phase.SETTLED and not self._state.plan.schedule.bins_total
        return self._state.reason or (NOTHING_TO_MOVE if idle else "")

    @property
    def progress(self) -> Progress | None:
        """Steps, bins, bytes and the time left; None while it has not begun."""
        return None if self._state is None else progress(self._state, self.rates)

    def cancel(self, reason: str = "cancelled on request") -> None:
        """Stop it where it does no harm; bins that have moved stay where they are."""
        self._cancel(self, reason)

    def wait(self, timeout_seconds: float | None = None) -> Phase:
        """Wait for its end; returns how it ended. A query that ends, or fails, ends its migrations: cancelled.

        Raises:
            TimeoutError: it has not within ``timeout_seconds``; it continues.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.ended:
            if not self._running():
                self.refuse("the query has ended")
                break
            left = math.inf if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"migration {self.id} is still {self.status} after {timeout_seconds} s")
            with self._changed:
                self._changed.wait_for(lambda: self.ended, min(left, LOOK_SECONDS))
        return self.phase

    def begin(self, state: MigrationState) -> None:
        """It has a plan now."""
        self.destinations = np.unique(state.plan.schedule.moves.destinations)
        self.update(state)

    def update(self, state: MigrationState) -> None:
        """It is here now."""
        with self._changed:
            self._state = state
            self._note_end()

    def refuse(self, reason: str) -> None:
        """It ends before it began, or with the query."""
        with self._changed:
            self._refused = reason
            self._note_end()

    def _note_end(self) -> None:
        if self.ended and self.ended_at is None:
            self.ended_at = self._now()
        self._changed.notify_all()

    def __repr__(self) -> str:
        return f"<Migration {self.id}: {self.status}{f' ({self.reason})' if self.reason else ''}>"


class History(list[Migration]):
    """The newest migrations of a driver's term, and all that have not ended, in the order of their numbers.

    Args:
        term: the numbers follow those of the terms before it.
    """

    def __init__(self, term: Term) -> None:
        super().__init__()
        self._numbers = itertools.count((term - 1) * MIGRATIONS_A_TERM + 1)

    def begin(
        self,
        request: Request,
        cancel: Callable[[Migration, str], None],
        running: Callable[[], bool],
        now: Callable[[], float],
    ) -> Migration:
        """A migration with the next number; the oldest ended one is removed."""
        migration = Migration(next(self._numbers), request, cancel, running, now)
        self.append(migration)
        self[:-HISTORY_MAX] = [old for old in self[:-HISTORY_MAX] if not old.ended]
        return migration
