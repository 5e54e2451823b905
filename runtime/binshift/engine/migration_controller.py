"""What moves: the driver's side of migrations, copies and snapshots, between the pure machine and the world.

The machine (`binshift.migration`) decides; this module passes it the events (epochs, reports, executors added and removed),
turns its actions into background orders, and starts the next migration when the target requires one. Only the target and the
recorded route are durable. It never does I/O. A lock that the coordinator shares guards it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

import numpy as np

from binshift.engine.background_scheduler import BackgroundScheduler
from binshift.engine.bin_records import BinRecords
from binshift.engine.clock import Clock
from binshift.engine.copies import Copies
from binshift.engine.migrations import History, Migration, MigrationPolicy, Request
from binshift.engine.pacer import CopyRate, Pacer
from binshift.engine.snapshots import SnapshotCycle
from binshift.engine.standbys import Standbys
from binshift.engine.worker_backoff import WorkerBackoff
from binshift.errors import BinshiftError
from binshift.log.index.index import Index
from binshift.migration import (
    Action,
    Cancel,
    Copy,
    DropCopies,
    EpochAbandoned,
    EpochRecorded,
    EpochStarting,
    Event,
    Flip,
    MigrationPlan,
    Paced,
    RetainedCopy,
    Retire,
    RoundReported,
    Started,
    Warm,
    WorkerLost,
    WorkersWarm,
    advance,
    begin,
    wants_epoch,
)
from binshift.model import BINS_MAX, Epoch, Moves, Term, Worker
from binshift.pacing import Pace
from binshift.routing import Route
from binshift.strategies import cut
from binshift.worker.messages import BackgroundReport, BackgroundSpec

NO_MOVES = Moves([], [], [])


class MigrationController:
    """All movement of one query, in one driver term.

    Attributes:
        history: the newest migrations, and all that have not ended, in the order of their numbers.
        bytes_copied: to workers that were about to own the bins, in all.
    """

    def __init__(self, policy: MigrationPolicy, operators: Sequence[str], term: Term, clock: Clock) -> None:
        self.lock = threading.RLock()  # held by each caller: the threads of the epoch, the background and requests
        self.running: Callable[[], bool] = lambda: True
        """Whether the query runs; a migration of one that does not will never end by itself."""
        self.clock = clock
        self.policy = policy
        self.operators = tuple(operators)
        self.copies = Copies(self.operators)
        self.standbys = Standbys(self.copies, policy.standby_replicas, clock)
        self.snapshots = SnapshotCycle(policy.snapshot_cycle_epochs, clock, policy.epochs_per_second)
        self.history = History(term)
        self.bytes_copied = 0
        self.pacer = Pacer(policy.latency_target_seconds, Pace(policy.duty, BINS_MAX))
        self.bin_records = BinRecords(policy.bins)
        self._copied = CopyRate()
        self._current: Migration | None = None
        self._queued: Migration | None = None
        self._kept: tuple[RetainedCopy, ...] = ()
        self._alive: frozenset[Worker] = frozenset()
        self._warm: set[Worker] = set()
        self.backoff = WorkerBackoff(self.clock)
        self._scheduler = BackgroundScheduler(self.operators, term, self.standbys, self.snapshots, self.backoff)

    def first_route(self, alive: Collection[Worker]) -> Route:
        """The route of a new query's first epoch. Errors as `MigrationPolicy.first_workers`."""
        workers = self.policy.first_workers(alive)
        self._warm |= set(workers)
        return Route.initial(self.policy.bins, workers)

    def participants(self, alive: Collection[Worker]) -> set[Worker]:
        """Workers that take part in epochs although they may own no bin yet: they are warm, well, and about to."""
        return set((self.destinations() & self._warm & set(alive)) - self.backoff.known.keys())

    def request(self, request: Request) -> Migration:
        """Accept a migration; one that runs is cancelled first."""
        migration = self.history.begin(request, self.cancel, lambda: self.running(), lambda: self.clock.time())
        if self._queued is not None:
            self._queued.refuse(f"superseded by migration {migration.id}")
        self._queued = migration
        self._advance(Cancel(f"superseded by migration {migration.id}"))
        return migration

    def replace_lost(self, workers: Collection[Worker], request: Request, index: Index) -> Migration:
        """Workers stayed away for too long; no epoch runs. ``request`` gives their bins to others, before all else."""
        for worker in workers:
            self._warm.discard(worker)
            for event in (*self.copies.forget_worker(worker, f"worker {worker} is lost"), WorkerLost(worker)):
                self._advance(event)
        migration = self.request(request)
        if self._current is not None and self._current.state is not None:
            self._kept = tuple(kept for kept in self._current.state.kept if kept.worker not in workers)
        self.settle(index)
        return migration

    @property
    def idle(self) -> bool:
        """Whether no migration is under way or waiting."""
        return self._queued is None and (self._current is None or self._current.ended)

    def measure(self, seconds: float, *, flipped_bins: int) -> None:
        """An epoch took so long, from its trigger to its record."""
        if self.pacer.epoch(seconds, moving=not self.idle, flipped_bins=flipped_bins):
            self._advance(Paced(self.pacer.pace.limits(self.policy.limits)))

    def settle(self, index: Index) -> None:
        """Start the accepted migration as soon as nothing else moves and there is a route to start from."""
        if self._queued is None or index.route is None or (self._current is not None and not self._current.ended):
            return
        migration, self._queued = self._queued, None
        request, options = migration.request, migration.request.options
        try:
            target = request.target(index.route)
            moves = index.route.moves_to(target.owners)
            sizes = index.bin_bytes()
            loads = sizes if request.weights is None else request.weights
            schedule = cut(moves, options.strategy, options.batch_size, loads)
        except BinshiftError as error:
            migration.refuse(str(error))
            return
        self._current = migration
        getting = frozenset(Worker(w) for w in np.unique(moves.destinations).tolist())
        self.backoff.wake(getting)
        cold = frozenset() if request.only_leaving else getting - self._warm
        plan = MigrationPlan(schedule, cold, options.pre_copy, sizes)
        self._copied = CopyRate()
        limits = self.pacer.restart().limits(self.policy.limits)
        migration.begin(begin(plan, limits, index.last, self._kept))
        self._kept = ()
        self._advance(Started())

    def cancel(self, migration: Migration, reason: str) -> None:
        """Stop a migration where it does no harm. Any thread may call."""
        with self.lock:
            if migration is self._queued:
                self._queued = None
                migration.refuse(reason)
            elif migration is self._current:
                self._advance(Cancel(reason))

    def flip(self, epoch: Epoch) -> Moves:
        """The moves that take effect in ``epoch``, which starts now."""
        flips = [a for a in self._advance(EpochStarting(epoch)) if isinstance(a, Flip)]
        return flips[0].moves if flips else NO_MOVES

    def apply_record(self, epoch: Epoch, moves: Moves, index: Index) -> None:
        """The record of ``epoch`` exists."""
        if len(moves):
            self.copies.apply_flip(epoch, moves)
        self._advance(EpochRecorded(epoch))
        self.settle(index)

    def adopt(self, epoch: Epoch, planned: Route, moves: Moves, index: Index) -> None:
        """The record of ``epoch`` is not the one this driver wrote last: an earlier run's, or an older driver's.

        If its route is the planned one, the moves have happened. If not, the migration was planned from a route that was never
        recorded: it continues with a plan from the recorded one.
        """
        if index.route == planned:
            self.apply_record(epoch, moves, index)
            return
        self._advance(EpochAbandoned(epoch))
        self._advance(EpochRecorded(epoch))
        self.copies.apply_flip(epoch, index.moves_at(epoch))
        current = self._current
        if current is not None and current.state is not None and not current.ended and not current.state.ending:
            self._carry_out(advance(current.state, Cancel("replanned"))[1])
            self.copies.clear_orders()
            self._current, self._queued = None, current
        self.settle(index)

    def abandon(self, epoch: Epoch) -> None:
        """The epoch will not be recorded by this driver."""
        self._advance(EpochAbandoned(epoch))

    def needs_epoch(self) -> bool:
        """Whether an epoch should run even without input."""
        current = self._current
        return current is not None and current.state is not None and wants_epoch(current.state)

    def _advance(self, event: Event) -> list[object]:
        """Feed the machine; carry out actions on copies; return all its actions."""
        current = self._current
        if current is None or current.state is None or current.ended:
            return []
        state, actions = advance(current.state, event)
        self._carry_out(actions)
        current.update(state)
        if current.ended:
            self.copies.clear_orders()
        return list(actions)

    def _carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Copy():
                    self.copies.order(action)
                    if not action.attempt:
                        self.backoff.wake([action.destination])
                case Retire(worker, bins) | DropCopies(worker, bins):
                    self.copies.drop(worker, bins)
                case Warm() | Flip():
                    pass

    def observe(self, alive: frozenset[Worker]) -> None:
        """Which workers have an executor now. One that went away is cold when it comes back, and its copies unknown."""
        for worker in self._alive - alive:
            self._warm.discard(worker)
            for event in self.copies.forget_worker(worker, f"the executor of worker {worker} went away"):
                self._advance(event)
        self._alive = alive
        self.backoff.forget_absent(alive)

    def cold(self) -> frozenset[Worker]:
        """Workers that should be warmed now."""
        state = None if self._under_way is None else self._under_way.state
        return frozenset() if state is None else state.plan.cold - self._warm

    def destinations(self) -> frozenset[Worker]:
        """Workers that receive bins."""
        current = self._under_way
        return frozenset() if current is None else frozenset(map(Worker, current.destinations.tolist()))

    @property
    def _under_way(self) -> Migration | None:
        return None if self._current is None or self._current.ended else self._current

    def give_up(self, why: str) -> None:
        """The migration that is under way ends here: nothing can be had of a worker, or of a file, that it needs."""
        self._advance(Cancel(why))

    @property
    def warm(self) -> frozenset[Worker]:
        """Workers that have rehearsed, or taken part in an epoch, since their executor came."""
        return frozenset(self._warm)

    def mark_participants_warm(self, workers: Collection[Worker]) -> None:
        """These workers' tasks have ended well: they are as warm as can be."""
        self.mark_warm((self._alive & frozenset(workers)) - self._warm)

    def mark_warm(self, workers: frozenset[Worker]) -> None:
        """These workers are ready for their first bin."""
        self._warm |= workers
        self._advance(WorkersWarm(workers))

    def round(self, index: Index) -> list[BackgroundSpec]:
        """What each worker should do next in the background; nothing for workers that are away."""
        self.settle(index)
        if index.route is None:
            return []
        moving, duty = self._under_way is not None, self.pacer.pace.duty
        specs = self._scheduler.specs(index, index.route, self._alive, duty, moving=moving)
        for event in () if specs else self.copies.arrivals():  # what an earlier migration had copied needs no round
            self._advance(event)
        return specs

    def take_reports(self, reports: Sequence[BackgroundReport], silent: Sequence[Worker] = (), why: str = "") -> None:
        """Take in what a job of a round did; see `BackgroundScheduler.take_reports`."""
        held = self.copies.count()
        self.bytes_copied += sum(each.bytes_copied for each in reports)
        for event in self._scheduler.take_reports(reports, silent, why):
            self._advance(event)
        arrived, seconds = self.copies.count() - held, max((each.seconds for each in reports), default=0.0)
        if arrived > 0 and self._current is not None:
            self._copied = self._copied.with_round(arrived // len(self.operators), seconds)
            self._current.rates = self._copied.rates(self.pacer.epoch_seconds)

    def end_round(self) -> None:
        """All jobs of a round were reported."""
        self._advance(RoundReported())
