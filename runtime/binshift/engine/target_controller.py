"""How requests for movement reach a query, and how they outlive its driver.

*Desired* is the request: the newest target, durable before its request is answered, ordered by (owner, generation). *Effective*
is the part that is possible now: the desired workers except draining and lost ones. A migration leads from the route to the
effective workers; when a worker is back, the query converges again by itself. Only the driver knows the draining and lost
workers: a restarted driver detects them itself.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Unpack

from binshift.engine.coordinator import Coordinator
from binshift.engine.desired_target import NEXT_GENERATION, PROGRAM, DesiredTarget, weights_of
from binshift.engine.migration_options import MigrationOptions, MigrationOverrides
from binshift.engine.migrations import Migration, Request
from binshift.errors import DrainRefused, MigrationRefused, NoSuchMigration
from binshift.log.log import Log
from binshift.log.records.targets import Target
from binshift.log.records.weights import pack, rounded
from binshift.migration import moves_back
from binshift.model import Bin, Worker
from binshift.planner import SLACK, Weights


@dataclass
class TargetController:
    """Accepts requests for one query; any thread may call it.

    Attributes:
        log: where targets are kept.
        coordinator: carries requests out.
        defaults: options of requests that leave them open.
    """

    log: Log
    coordinator: Coordinator
    defaults: MigrationOptions
    _first: tuple[Worker, ...] = ()
    _draining: dict[Worker, str] = field(default_factory=dict)
    _lost: set[Worker] = field(default_factory=set)
    _missed: set[Worker] = field(default_factory=set)  # without an executor when a migration to them ended
    _executors: Mapping[Worker, str] = field(default_factory=dict)
    _diverged: bool = False
    _taken_up: Target | None = None  # the newest target that something was begun for in this driver
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _desired_target: DesiredTarget = field(init=False)

    def __post_init__(self) -> None:
        self._desired_target = DesiredTarget(self.log)

    # -------------------------------------------------------------------------------------------------------- targets

    @property
    def target(self) -> Target | None:
        """The desired target; None before the first."""
        return self._desired_target.target

    @property
    def effective(self) -> tuple[Worker, ...]:
        """The desired workers except draining and lost ones; empty before the first epoch."""
        with self.coordinator.lock:
            return tuple(w for w in self._desired() if w not in self._draining and w not in self._lost)

    def rescale(self, workers: tuple[Worker, ...], **given: Unpack[MigrationOverrides]) -> Migration:
        """Ask, as the query's own program, for all bins to be shared by ``workers``.

        Raises:
            MigrationRefused: the strategy is unknown.
            TargetOwned: the target is an operator's; it is the one to ask.
            Fenced: a newer driver has taken over; it is the one to ask.
            StorageUnavailable: the target could not be made durable; nothing was begun.
        """
        migration = self._set(self._target(PROGRAM, NEXT_GENERATION, workers, self.defaults.override(**given)))
        assert migration is not None
        return migration

    def put(
        self,
        owner: str,
        generation: int,
        workers: tuple[Worker, ...],
        latency_target_seconds: float | None = None,
        **given: Unpack[MigrationOverrides],
    ) -> Migration | None:
        """Set the target as ``owner``. Another owner's is replaced; the same generation again changes nothing (None).

        Raises:
            TargetOutdated: the owner has set a newer generation already, or this one with other content.
            MigrationRefused: the strategy is unknown, or there is no worker.
            Fenced, StorageUnavailable: as `rescale`.
        """
        if not workers:
            raise MigrationRefused("the target has no workers: name at least one worker to hold the bins")
        options = self.defaults.override(latency_target_seconds=latency_target_seconds, **given)
        return self._set(self._target(owner, generation, tuple(sorted(set(workers))), options))

    def rebalance(self, **given: Unpack[MigrationOverrides]) -> Migration:
        """Have the workers share the bins by their load as measured now, with little movement: see `balanced_route`.

        The target stays its owner's, with its generation and workers, so anyone may ask. Strategy, batch size and pre-copy are those
        of this one migration; what is left open is the target's. If no worker has more than 1.05 times the mean load, nothing moves.

        Raises:
            MigrationRefused: no load is known yet, or the strategy is unknown.
            Fenced, StorageUnavailable: as `rescale`.
        """
        workers = self.effective
        if self._weights() is None or self.log.index.route is None or not workers:
            raise MigrationRefused(
                "no load of a bin has been measured yet: ask again later, after some epochs with input"
            )
        with self._writing:
            first = self._target(PROGRAM, NEXT_GENERATION, workers, self.defaults.override(**given))
            self._desired_target.reweigh(first)
            request = self._take_up()
            return self._begin(replace(request, options=request.options.override(**given), tolerated=SLACK))

    def move(self, moves: Mapping[Bin, Worker], **given: Unpack[MigrationOverrides]) -> Migration:
        """Move single bins. A restarted driver does not remember this, and continues towards the target.

        Raises:
            TargetOwned: as `rescale`.
        """
        self._desired_target.check_owner(PROGRAM)
        return self._begin(Request(moves=dict(moves), options=self.defaults.override(**given)))

    def resume(self) -> Migration | None:
        """Continue towards the newest target, if the recorded route differs from it."""
        if self._desired_target.read() is None:
            return None
        request, route = self._take_up(), self.log.index.route
        # The same workers are not enough: a driver that died early has moved some of their bins only.
        return None if route is not None and request.target(route) == route else self._begin(request)

    # ------------------------------------------------------------------------------------------- workers that go

    def drain(self, worker: Worker) -> Migration:
        """Move everything off ``worker``, until it comes back with another executor.

        Raises:
            DrainRefused: no other worker would remain.
        """
        with self.coordinator.lock:
            self._remember()
            left = tuple(w for w in self.effective if w != worker)
            if not left:
                raise DrainRefused(f"worker {worker} is the last one: start another one first, or stop the query")
            self._draining[worker] = self._executors.get(worker, "")
            return self._begin(Request(left, options=self.defaults, weights=self._weights()))

    def replace_lost(self, workers: Collection[Worker], alive: Collection[Worker]) -> Migration:
        """Workers that an epoch waits for are lost: give their bins, and no others, to the other workers.

        To be called between epochs: the one that waited is abandoned.

        Raises:
            MigrationRefused: no other worker is registered.
        """
        with self.coordinator.lock:
            self._remember()
            # A returned worker is perhaps not yet noticed.
            self._lost = (self._lost - set(alive)) | set(workers)
            route = self.log.index.route
            there = set(alive) - self._lost
            # An unrequested worker is better than a stream that stops.
            left = sorted((set(self.effective) | set(route.workers if route else ())) & there or there)
            if not left:
                raise MigrationRefused(f"workers {sorted(workers)} are lost and no other is registered: start one")
            self._diverged = True
            migrations, options = self.coordinator.migrations, self.defaults.override("AllAtOnce", pre_copy=False)
            standbys = migrations.standbys.takeover(self.log.index, self._lost, left)
            request = Request(tuple(left), standbys, options, weights=self._weights(), only_leaving=True)
            return migrations.replace_lost(workers, request, self.log.index)

    def observe(self, executors: Mapping[Worker, str]) -> None:
        """Who is there now, by executor id; a worker that is back gets its share of the bins again."""
        with self.coordinator.lock:
            self._executors = dict(executors)
            drained = {w for w, was in self._draining.items() if executors.get(w, was) != was}
            found = (self._lost | self._missed) & executors.keys()
            if drained or found:
                self._draining = {w: was for w, was in self._draining.items() if w not in drained}
                self._lost, self._missed = self._lost - found, self._missed - found
                self._diverged = True
            if self._diverged and self.coordinator.migrations.idle and self.log.index.route is not None:
                self._diverged = False
                request = self._wanted()
                if request.target(self.log.index.route) != self.log.index.route:
                    self._begin(request)

    def give_up(self, worker: Worker, seconds: float) -> None:
        """End the migration that has waited so long for ``worker``; the query converges again when it has an executor."""
        with self.coordinator.lock:
            self._missed.add(worker)
            then = "its bins move" if worker in self._desired() else "request the move again"
            why = f"has no executor after {seconds:.0f} s; {then} when it has one"
            self.coordinator.migrations.give_up(f"worker {worker} {why}")

    def cancel(self, number: int, *, rollback: bool = False) -> Migration:
        """Stop a migration where it does no harm, and return it; with ``rollback``, move back what it has moved, and return that migration.

        The target is durable: a restarted driver continues towards it. Raises `NoSuchMigration` if there is none of that number.
        """
        with self.coordinator.lock:
            found = next((each for each in self.coordinator.migrations.history if each.id == number), None)
            if found is None:
                raise NoSuchMigration(f"there is no migration {number} in this run, or not any more")
            found.cancel("rolled back on request" if rollback else "cancelled on request")
            state, route = found.state, self.log.index.route
            back = moves_back(state, route.owners) if rollback and state and route else {}
            return self._begin(Request(moves=back, options=self.defaults)) if back else found

    # ------------------------------------------------------------------------------------------------------ the parts

    def _desired(self) -> tuple[Worker, ...]:
        if self.target is not None:
            return tuple(Worker(w) for w in self.target.workers)
        route = self.log.index.route
        return self._first or (() if route is None else route.workers)

    def _target(self, owner: str, generation: int, workers: tuple[Worker, ...], options: MigrationOptions) -> Target:
        return Target(
            owner=owner,
            generation=generation,
            workers=workers,
            strategy=options.strategy.value,
            batch_size=options.batch_size,
            pre_copy=options.pre_copy,
            latency_target_seconds=options.latency_target_seconds,
            weights=pack(self._weights()),
        )

    def _set(self, target: Target) -> Migration | None:
        """Make a target durable and begin what it requires; None if that was done before."""
        with self._writing:
            written = self._desired_target.write(target)
            # Or it was written before, with an answer that was lost.
            return self._begin(self._take_up()) if written or self._taken_up != self.target else None

    def _take_up(self) -> Request:
        """What the newest target requires now; its own latency, or the setting where it names none, is the pace from now on."""
        self._taken_up = self.target
        own = None if self.target is None else self.target.latency_target_seconds
        migrations = self.coordinator.migrations
        migrations.pacer.aim_seconds = migrations.policy.latency_target_seconds if own is None else own
        return self._wanted()

    def _remember(self) -> None:
        """Without a target, what there was before the first worker went is what should be again."""
        self._first = self._desired()

    def _wanted(self) -> Request:
        workers, target = self.effective or self._desired(), self.target
        if target is None:
            return Request(workers, options=self.defaults, weights=self._weights())
        moves = {b: Worker(a.worker) for a in target.assignments if a.worker in workers for b in a.bins}
        weights = weights_of(target, self.coordinator.bins)
        options = MigrationOptions.of(target)
        return Request(workers, moves, options, weights=weights, generation=target.generation)

    def _weights(self) -> Weights | None:
        """The load of every bin as measured now, rounded as a target keeps it."""
        return rounded(self.coordinator.bin_weights())

    def _begin(self, request: Request) -> Migration:
        with self.coordinator.lock:
            migration = self.coordinator.migrations.request(request)
            self.coordinator.migrations.settle(self.log.index)
            return migration
