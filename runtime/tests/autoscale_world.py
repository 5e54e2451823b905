"""A dataflow on a cluster as a model: epochs of known cost, an arrival trace, pods that start slowly, moves that take time.

The rows of a trace arrive continuously; an epoch takes all that waits, up to its bound. New workers are used after their pods have
started and the state has moved; a worker that leaves is paid for until it has moved away. The autoscaler and the bound are the real ones.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from binshift.autoscale import Autoscaler, Decision
from binshift.epoch_costs import EpochCosts, EpochLoad, bound_rows
from binshift.load import Hottest, load_of
from binshift.model import Epoch
from binshift.skew import Skew
from binshift.worker_need import Policy

Trace = Callable[[float], float]
"""Rows per second at a time."""

FIXED, PER_ROW = 0.15, 50e-6
DECIDE_SECONDS = 1.0
IDLE_SECONDS = 0.05
OVERHEAD_SHARE = 0.6
"""Of the fixed part, what a driver can measure as such."""


@dataclass
class World:
    """One run of a trace.

    Attributes:
        trace: the rows that arrive.
        policy: of the autoscaler; None: the number of workers stays.
        workers: that own bins.
        max_epoch: bound of an epoch; None: none.
        cold_seconds: until a new pod is registered.
        move_seconds: until its bins have moved.
        per_row: cost of a row, by the number of workers.
        skew: the busiest worker's part over the mean.
        balanced: what that becomes once the bins are shared by load, as measured; None: it is not measured.
        stubborn: whether a rebalance changes nothing nevertheless.
        hottest: the share of the rows that one bin gets; it has a worker of its own as soon as there are enough.
        knows_backlog: whether the source does.
        noise: relative, of an epoch's duration.
    """

    trace: Trace
    policy: Policy | None
    workers: int = 2
    max_epoch: float | None = 2.0
    cold_seconds: float = 20.0
    move_seconds: float = 8.0
    per_row: Callable[[int], float] = lambda workers: PER_ROW
    fixed: Callable[[float], float] = lambda now: FIXED
    skew: float = 1.0
    balanced: float | None = None
    stubborn: bool = False
    hottest: float = 0.0
    knows_backlog: bool = True
    noise: float = 0.1
    now: float = 0.0
    desired: int = field(init=False)
    decisions: list[tuple[float, int, Decision]] = field(default_factory=list)
    rebalances: list[tuple[float, Decision]] = field(default_factory=list)
    epochs: list[EpochLoad] = field(default_factory=list)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    worker_seconds: float = 0.0
    costs: EpochCosts = field(default_factory=EpochCosts)
    _random: random.Random = field(default_factory=lambda: random.Random(7))
    _arrived: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
    _taken: float = 0.0
    _ready_at: float = 0.0
    _moving: bool = False
    _decided_at: float = -math.inf

    def __post_init__(self) -> None:
        self.desired = self.workers
        self._autoscaler = None if self.policy is None else Autoscaler(self.policy)

    def run(self, seconds: float) -> World:
        """Continue for so long."""
        until = self.now + seconds
        while self.now < until:
            self._arrive()
            if self._arrived[-1][1] - self._taken < 1:
                self._pass(IDLE_SECONDS)
            else:
                self._epoch()
            self._decide()
        return self

    @property
    def rescales(self) -> int:
        """How often the number of workers was changed."""
        return len(self.decisions)

    def after(self, time: float) -> list[tuple[float, int]]:
        """Decisions since then: when, and how many workers."""
        return [(at, workers) for at, workers, _ in self.decisions if at >= time]

    def worst(self, since: float = 0.0) -> float:
        """The worst record latency of records that arrived since then."""
        return max((latency for arrived, latency in self.latencies if arrived >= since), default=0.0)

    def late(self, target: float) -> float:
        """The share of epochs with records later than ``target``."""
        return sum(latency > target for _, latency in self.latencies) / max(1, len(self.latencies))

    def ask(self) -> Decision:
        """What the autoscaler decides now."""
        assert self._autoscaler is not None
        load = load_of(self.epochs[-1024:], self.costs, self.now)
        skew = None if self.balanced is None else Skew(self.skew, min(self.balanced, self.skew))
        load = replace(load, hottest=Hottest(self.hottest) if self.hottest else None, skew=skew)
        return self._autoscaler.decide(load, self.desired, settled=not self._moving)

    # ---------------------------------------------------------------------------------------------------------- inside

    def _pass(self, seconds: float) -> None:
        self.worker_seconds += max(self.desired, self.workers) * seconds
        self.now += seconds
        if self._moving and self.now >= self._ready_at:
            self.workers, self._moving = self.desired, False
            if self.balanced is not None:
                reached = self.skew if self.stubborn else min(self.balanced, self.skew)
                self.skew = self.balanced = reached

    def _arrive(self) -> None:
        at, rows = self._arrived[-1]
        if self.now > at:
            middle = (at + self.now) / 2
            self._arrived.append((self.now, rows + self.trace(middle) * (self.now - at)))

    def _epoch(self) -> None:
        available = int(self._arrived[-1][1] - self._taken)
        bound = None if self.max_epoch is None else bound_rows(self.costs, self.max_epoch, self.workers)
        rows = available if bound is None else min(available, bound)
        oldest, workers, moving = self._time_of(self._taken), self.workers, self._moving
        busy = self.per_row(workers) * self.skew * rows * max(self.hottest, 1 / workers)
        seconds = (self.fixed(self.now) + busy) * (1 + self.noise * self._random.random()) * (1.1 if moving else 1.0)
        self._taken += rows
        began = self.now
        while self.now < began + seconds:  # arrivals are noted in small steps: a trace changes within an epoch
            self._pass(min(1.0, began + seconds - self.now))
            self._arrive()
        behind = available - rows if self.knows_backlog else None
        overhead = OVERHEAD_SHARE * self.fixed(began)
        load = EpochLoad(Epoch(len(self.epochs)), self.now, seconds, (rows,), workers, moving, behind, bound, overhead)
        self.epochs.append(load)
        self.costs.add(load)
        self.latencies.append((oldest, self.now - oldest))

    def _time_of(self, rows: float) -> float:
        place = bisect_right(self._arrived, rows, key=lambda each: each[1])
        if place >= len(self._arrived):
            return self._arrived[-1][0]
        (t1, r1), (t2, r2) = self._arrived[place - 1], self._arrived[place]
        return t1 + (t2 - t1) * (rows - r1) / (r2 - r1) if r2 > r1 else t1

    def _decide(self) -> None:
        if self._autoscaler is None or self.now - self._decided_at < DECIDE_SECONDS:
            return
        self._decided_at = self.now
        found = self.ask()
        if found.workers != self.desired:
            self._moving = True
            cold = self.cold_seconds if found.workers > max(self.desired, self.workers) else 0.0
            self.desired = found.workers
            self._ready_at = self.now + cold + self.move_seconds
            self.decisions.append((self.now, found.workers, found))
        elif found.rebalance:
            self._moving, self._ready_at = True, self.now + self.move_seconds
            self.rebalances.append((self.now, found))


def ideal_worker_seconds(trace: Trace, seconds: float, policy: Policy, step: float = 10.0) -> float:
    """Of the smallest numbers of workers that would do at every moment, if they came and went at once."""
    times: Sequence[float] = [each * step for each in range(int(seconds / step))]
    needed = [math.ceil(PER_ROW * trace(at) / policy.utilization) for at in times]
    return sum(min(max(each, policy.least), policy.most) * step for each in needed)
