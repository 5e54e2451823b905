"""Standby copies: for each bin a copy on a worker that does not own it, which catches up as long as the query runs.

If the owner's executor is lost, the bin flips to its standby in the next run of the epoch, which has only the newest deltas to
apply. Where standbys are is a function of the recorded route (`binshift.replicas`), so nothing about them is durable. Their
copies are made and advanced in background rounds like those of a migration, and are the prepared copies of a migration that moves
bins to the same worker. While bins move, the copies held are kept and advanced, and no other standby copy begins.

What this module knows of copies is what workers have reported: it can be behind. An epoch checks what a store has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from binshift.engine.clock import Clock
from binshift.engine.copies import Copies
from binshift.log.index.bringup import CATCH_UP_EPOCHS_MAX
from binshift.log.index.index import Index
from binshift.model import Bin, BinSet, Epoch, IntArray, Worker
from binshift.replicas import NONE, standby_workers
from binshift.routing import Route

CATCH_UP_SECONDS = 1.0
"""Between two rounds that advance standby copies: what is missing at a takeover is the input of about so much time. Copies that
are missing altogether are made in one round after the other."""


@dataclass(frozen=True, slots=True)
class StandbyFigures:
    """How complete the standby copies are.

    Attributes:
        bins: that have one, of every operator.
        lag_epochs: by which the oldest of these copies is behind; None if there is none.
    """

    bins: int
    lag_epochs: int | None


@dataclass
class Standbys:
    """The standby copies of one driver term.

    Attributes:
        copies: which copies workers hold.
        replicas: standby copies of each bin, 0 or 1.
        clock: sets the pace.
    """

    copies: Copies
    replicas: int
    clock: Clock
    _route: Route | None = None
    _of_worker: Mapping[Worker, BinSet] = field(default_factory=dict)
    _begins: bool = False
    _advances: bool = False
    _incomplete: bool = False
    _next: float = 0.0

    def follow(self, route: Route, *, moving: bool) -> None:
        """Begin a round: the standbys are those of this route; ``moving`` is whether a migration is under way."""
        if not self.replicas:
            return
        self.copies.keep(self._placed(route))
        now = self.clock()
        self._advances = now >= self._next
        self._begins, self._incomplete = not moving and (self._advances or self._incomplete), False
        if self._advances:
            self._next = now + CATCH_UP_SECONDS

    def due(self, operator: str, worker: Worker, last: Epoch) -> tuple[BinSet, BinSet]:
        """The bins whose standby copies ``worker`` is to advance in this round, and to make; ``last`` is the newest epoch."""
        if not (self._begins or self._advances):
            return BinSet(), BinSet()
        wanted = self._of_worker.get(worker, BinSet()) - self.copies.wanted(worker)
        held = {b: epoch for b, epoch in self.copies.of(operator, worker, wanted).items() if _is_kept(epoch, last)}
        late = BinSet([b for b, epoch in held.items() if epoch < last]) if self._advances else BinSet()
        new = wanted - BinSet(held) if self._begins else BinSet()
        self._incomplete |= bool(new)
        return late, new

    def takeover(self, index: Index, lost: Collection[Worker], there: Collection[Worker]) -> dict[Bin, Worker]:
        """The bins of lost workers whose standby copies are on workers of ``there``, and these."""
        if not self.replicas or index.route is None:
            return {}
        of_bin = self._held(index.route, index.last, there)
        leaving = np.isin(index.route.owners, list(lost)) & (of_bin >= 0)
        return {Bin(b): Worker(int(of_bin[b])) for b in np.flatnonzero(leaving).tolist()}

    def covered(self, index: Index, lost: Collection[Worker], there: Collection[Worker]) -> list[Worker]:
        """The lost workers whose bins all have standby copies on workers of ``there``."""
        if not self.replicas or index.route is None:
            return []
        bare = set(index.route.owners[self._held(index.route, index.last, there) < 0].tolist())
        return [worker for worker in lost if worker in index.route.workers and worker not in bare]

    def figures(self, index: Index) -> StandbyFigures | None:
        """How complete they are, as of the newest reports; None without standbys."""
        if not self.replicas or index.route is None:
            return None
        held = by_worker(self._held(index.route, index.last, {worker for _, worker in self.copies.held}))
        epochs = [
            epoch for o in self.copies.operators for w in held for epoch in self.copies.of(o, w, held[w]).values()
        ]
        return StandbyFigures(sum(map(len, held.values())), max(0, index.last - min(epochs)) if epochs else None)

    def _placed(self, route: Route) -> Mapping[Worker, BinSet]:
        """The bins whose standby each worker is; computed once for a route."""
        if route != self._route:
            self._route, self._of_worker = route, by_worker(standby_workers(route))
        return self._of_worker

    def _held(self, route: Route, last: Epoch, there: Collection[Worker]) -> IntArray:
        """For each bin the worker of ``there`` with its standby copy, of every operator and not too old; otherwise negative."""
        found = np.full(route.bins, NONE, dtype=np.int32)
        for worker, bins in self._placed(route).items():
            if worker in there:
                for operator in self.copies.operators:
                    held = self.copies.of(operator, worker, bins)
                    bins = bins & BinSet([b for b, epoch in held.items() if _is_kept(epoch, last)])
                found[bins.array] = worker
        return found


def _is_kept(epoch: int, last: Epoch) -> bool:
    """Whether a copy is new enough to be advanced by deltas; an older one is loaded again."""
    return epoch >= last - CATCH_UP_EPOCHS_MAX


def by_worker(of_bin: IntArray) -> dict[Worker, BinSet]:
    """The bins of each worker, where each bin has one or, if negative, none.

    >>> by_worker(np.array([2, -1, 0, 2], dtype=np.int32))
    {0: BinSet(2), 2: BinSet(0, 3)}
    """
    workers = np.unique(of_bin[of_bin >= 0]).tolist()
    return {Worker(w): BinSet(np.flatnonzero(of_bin == w).astype(np.int32)) for w in workers}
