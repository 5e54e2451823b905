"""Routes: the owner of each bin in one epoch, and how control updates change it.

A route is a total function: every bin has exactly one owner (invariant I1), by construction. Versions are totally
ordered: a route derived from another has a higher version (Megaphone, section 3.1: configurations are installed in
the order of their times).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from binshift.errors import InvalidRoute
from binshift.model import BINS_MAX, Bin, BinSet, IntArray, Moves, Worker


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The map bin -> worker of one epoch.

    >>> route = Route.initial(bins=8, workers=[Worker(0), Worker(1)])
    >>> route.owner(Bin(5)), len(route.bins_of(Worker(1)))
    (1, 4)
    >>> moved = route.moved(Moves([5], [1], [0]))
    >>> moved.owner(Bin(5)), moved.version
    (0, 1)
    """

    owners: IntArray
    version: int = field(default=0)

    def __post_init__(self) -> None:
        owners = np.asarray(self.owners, dtype=np.int32).copy()
        if not 1 <= owners.size <= BINS_MAX or owners.size & (owners.size - 1):
            raise InvalidRoute(f"a route has {owners.size} bins; it needs a power of two between 1 and {BINS_MAX}")
        if owners.min() < 0:
            raise InvalidRoute(f"bin {int(owners.argmin())} has no owner")
        owners.setflags(write=False)
        object.__setattr__(self, "owners", owners)

    @classmethod
    def initial(cls, bins: int, workers: Iterable[Worker]) -> Route:
        """Bins assigned to ``workers`` in contiguous, equally long runs (a short record; keys are hashed anyway)."""
        slots = np.asarray(sorted(set(workers)), dtype=np.int32)
        if not slots.size:
            raise InvalidRoute("a route needs at least one worker; got none")
        return cls(slots[np.arange(bins, dtype=np.int64) * slots.size // bins])

    @property
    def bins(self) -> int:
        """The number of bins."""
        return int(self.owners.size)

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers that own at least one bin, ascending."""
        return tuple(Worker(w) for w in np.flatnonzero(np.bincount(self.owners)).tolist())

    def owner(self, bin: Bin) -> Worker:
        """The worker that owns ``bin``."""
        return Worker(int(self.owners[bin]))

    def bins_of(self, worker: Worker) -> BinSet:
        """All bins of ``worker``; empty for a worker that owns none."""
        return BinSet(np.flatnonzero(self.owners == worker).astype(np.int32))

    def moved(self, moves: Moves) -> Route:
        """The next route, after ``moves``.

        Raises:
            InvalidRoute: a bin moves twice, does not exist in this route, or does not start at its owner (a control update in the
                wrong order).
        """
        self._check_range(moves.bins)
        if len(np.unique(moves.bins)) != len(moves):
            raise InvalidRoute("a bin moves twice in one epoch")
        wrong = np.flatnonzero(self.owners[moves.bins] != moves.sources)
        if wrong.size:
            move = next(iter(moves[wrong[:1]]))
            raise InvalidRoute(
                f"bin {move.bin} is owned by worker {self.owner(move.bin)}, not by {move.source}: "
                "this control update was made for another route; plan again from the current one"
            )
        owners = self.owners.copy()
        owners[moves.bins] = moves.destinations
        return Route(owners, self.version + 1)

    def moves_to(self, target: Mapping[Bin, Worker] | npt.NDArray[np.int32]) -> Moves:
        """The moves from this route to ``target`` (a whole array of owners, or only some bins).

        Raises:
            InvalidRoute: ``target`` has another number of bins, or names one that does not exist.
        """
        if isinstance(target, Mapping):
            wanted = np.array(sorted(target.items()), dtype=np.int64).reshape(-1, 2)
            self._check_range(wanted[:, 0])
            changed = wanted[self.owners[wanted[:, 0]] != wanted[:, 1]]
            return Moves(changed[:, 0], self.owners[changed[:, 0]], changed[:, 1])
        if target.shape != self.owners.shape:
            raise InvalidRoute(f"a target for {target.size} bins does not fit a route of {self.bins} bins")
        moved = np.flatnonzero(self.owners != target)
        return Moves(moved, self.owners[moved], target[moved])

    def _check_range(self, bins: npt.NDArray[np.integer]) -> None:
        outside = bins[(bins < 0) | (bins >= self.bins)]
        if outside.size:
            raise InvalidRoute(f"bin {int(outside[0])} does not exist: this route has bins 0 to {self.bins - 1}")

    def __eq__(self, other: object) -> bool:
        """Same owners. The version orders routes and does not count."""
        return isinstance(other, Route) and np.array_equal(self.owners, other.owners)

    def __hash__(self) -> int:
        return hash(self.owners.tobytes())
