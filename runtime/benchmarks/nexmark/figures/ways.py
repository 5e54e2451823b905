"""How bins move, and which: Megaphone's four strategies, a quarter of all bins between fixed workers and back, and two workers to four."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bench_rebalance import away

from binshift.model import Bin, Worker
from binshift.strategies import Strategy

MOVE_SECONDS_MAX = 300.0
WORKERS = 4
STEPS = 16
"""A step of Batched, and a matched pair of Optimized, has the bins of the query divided by this."""


@dataclass(frozen=True)
class Way:
    """How bins move.

    Attributes:
        name: for tables and command lines.
        strategy: one of Megaphone's.
        pre_copy: whether bins are copied before they flip.
        share: a step has this part of all bins, for Batched and Optimized.
        rounds_max: measured at most so often: a way that takes long, or that no target holds for.
    """

    name: str
    strategy: Strategy
    pre_copy: bool = True
    share: float = 1 / STEPS
    rounds_max: int | None = None

    def options(self, bins: int) -> dict[str, Any]:
        """The options of a request, for a query with so many bins.

        >>> Way("batched", Strategy.BATCHED).options(256)
        {'strategy': 'Batched', 'batch_size': 16, 'pre_copy': True}
        """
        return {
            "strategy": self.strategy.value,
            "batch_size": max(1, int(bins * self.share)),
            "pre_copy": self.pre_copy,
        }

    def measured_in(self, number: int) -> bool:
        """Whether the round of this number, from 0, measures it."""
        return self.rounds_max is None or number < self.rounds_max


ALL_AT_ONCE = Way("all-at-once", Strategy.ALL_AT_ONCE, pre_copy=False, rounds_max=2)
"""What the papers compare with: state is loaded while records wait, as by a partial pause and restart."""
BASELINE = replace(ALL_AT_ONCE, rounds_max=1)
"""The same where it is shown next to what is measured."""
FLUID = Way("fluid", Strategy.FLUID, rounds_max=1)
BATCHED = Way("batched", Strategy.BATCHED)
OPTIMIZED = Way("optimized", Strategy.OPTIMIZED)
WAYS: Mapping[str, Way] = {way.name: way for way in (ALL_AT_ONCE, FLUID, BATCHED, OPTIMIZED)}
PREPARED = (BATCHED.name, OPTIMIZED.name)
"""The ways for which the targets hold."""


class Shift(Protocol):
    """Which bins move: there, which is not measured, and then the measured move."""

    name: str

    def prepare(self, query: Any, way: Way) -> None:
        """The move that is not measured."""

    def move(self, query: Any, way: Way) -> None:
        """The measured one."""


@dataclass
class Rebalance:
    """Half of the bins of half of the workers, away and back: a quarter of the state, between workers that are all active throughout."""

    name: str = "rebalance"
    _owners: dict[Bin, Worker] = field(default_factory=dict)

    def prepare(self, query: Any, way: Way) -> None:
        """Away."""
        self._owners = self._owners or {Bin(bin): Worker(int(owner)) for bin, owner in enumerate(query.route.owners)}
        self._settled(query, away(self._owners), way)

    def move(self, query: Any, way: Way) -> None:
        """Back."""
        self._settled(query, {bin: self._owners[bin] for bin in away(self._owners)}, way)

    def _settled(self, query: Any, moves: Mapping[Bin, Worker], way: Way) -> None:
        check(query.move(moves, **way.options(query.route.bins)))


@dataclass
class Rescale:
    """Two workers to four, after four to two."""

    name: str = "2 to 4 workers"

    def prepare(self, query: Any, way: Way) -> None:
        """In, prepared: how does not matter here."""
        check(query.rescale(WORKERS // 2, **OPTIMIZED.options(query.route.bins)))

    def move(self, query: Any, way: Way) -> None:
        """Out."""
        check(query.rescale(WORKERS, **way.options(query.route.bins)))


def check(migration: Any) -> None:
    """Wait for a move.

    Raises:
        RuntimeError: it was not carried out.
        TimeoutError: it did not end.
    """
    phase = migration.wait(MOVE_SECONDS_MAX)
    if phase.value != "settled":
        raise RuntimeError(f"a move is {phase.value}: {migration.reason}; the figures would be of something else")


def chosen(names: Sequence[str]) -> list[Way]:
    """The ways of these names.

    Raises:
        ValueError: there is no such way.
    """
    if wrong := [name for name in names if name not in WAYS]:
        raise ValueError(f"no way to move is named {wrong[0]!r}: use some of {', '.join(WAYS)}")
    return [WAYS[name] for name in names]
