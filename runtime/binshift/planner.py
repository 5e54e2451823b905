"""Where every bin should be: from a route and a set of workers to the target route.

`target_route` answers all four questions one can ask of it (grow, shrink, replace workers, re-weigh) in one way:

1. *shed*: bins on workers that leave, and what a worker has beyond its share, go into a pool;
2. *fill*: the pool goes to the workers with the least load;
3. *pull*: workers that are still far below their share take single bins from those above it.

So a bin moves only if its worker leaves, has too much, or another one would have too little. This module decides
where bins end up, never in which order they get there (`binshift.strategies`) or when (`binshift.migration`).

The pool is dealt out along a line (bins sorted by their source, workers' gaps laid end to end) rather than one by one:
that is one `searchsorted` for a million bins, and it keeps few, long runs between few pairs of workers, which makes
short commit records and cheap matchings. Only bins much heavier than the rest are placed one at a time, heaviest first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from binshift.errors import MigrationRefused
from binshift.invariants import invariant
from binshift.model import IntArray, Worker
from binshift.routing import Route

Weights = npt.NDArray[np.float64]

PLACED_SINGLY_MAX = 1 << 12
"""Most bins that are placed one at a time; a dataflow with more outliers than this has no outliers."""

NOWHERE = -1
"""The seat of a bin in the pool, and in ``homes`` of a bin that has no copy anywhere."""

ROUNDING = 1e-9
"""How far sums of weights may be off, in units of the heaviest bin."""


def target_route(
    route: Route,
    workers: Sequence[Worker],
    weights: npt.NDArray[np.floating] | None = None,
    *,
    slack: float = 0.0,
    homes: IntArray | None = None,
) -> Route:
    """The route over ``workers`` that is balanced by weight and close to ``route``.

    ``weights`` has one number >= 0 for each bin in any unit (see `bin_weights`); without it all bins weigh the same. The
    bounds hold for `counted_weights` of it. With A the average load of a worker, h the heaviest bin, W workers:

    - **balance**: every worker has between ``A * (1 - slack) - h`` and ``A * (1 + slack) + h``; with equal weights and no
      slack that means: either floor or ceil of bins/W bins;
    - **movement**: let M be the weight on leaving workers plus what the others have beyond ``A * (1 + slack)``: what any
      route must move in which nobody exceeds that share. At most ``M + (W - 1) * (slack * A + h)`` moves. With equal
      weights and no slack, exactly the least number of bins moves that any route with that balance needs.

    ``slack`` is the imbalance, as a fraction of A, not worth a move. With ``math.inf`` only the bins of leaving workers
    move, which is what a lost worker needs. ``homes`` names for each bin a worker with a copy of it (`NOWHERE` = none):
    a bin that has to move goes there if that does not lift the worker above ``A * (1 + slack)``.

    A target equal to ``route`` is returned as ``route`` itself; otherwise its version is one higher.

    Raises:
        MigrationRefused: ``workers`` is empty.

    >>> grown = target_route(Route.initial(8, [Worker(0), Worker(1)]), [Worker(0), Worker(1), Worker(2), Worker(3)])
    >>> grown.owners.tolist()
    [0, 0, 2, 2, 1, 1, 3, 3]
    """
    slots = np.unique(np.asarray(workers, dtype=np.int32))
    if not slots.size:
        raise MigrationRefused("a target without workers was asked for: name at least one worker to hold the bins")
    floor = _Floor(route, slots, counted_weights(weights, route.bins), slack)
    floor.shed()
    if homes is not None:
        floor.send_home(homes)
    floor.place_heavy()
    floor.deal_light()
    floor.pull()
    owners = slots[floor.seats]
    return route if np.array_equal(owners, route.owners) else Route(owners, route.version + 1)


def counted_weights(weights: npt.NDArray[np.floating] | None, bins: int) -> Weights:
    """The weights the planner balances by, in units of the heaviest bin.

    No bin counts for less than ``1 / bins``, so that many empty bins still spread out; together that adds at most the
    weight of one bin. All zero means all equal.

    >>> counted_weights(np.array([0, 8, 2, 4]), 4).tolist()
    [0.25, 1.0, 0.25, 0.5]
    """
    if weights is None:
        return np.ones(bins)
    given = np.asarray(weights, dtype=np.float64)
    invariant(given.shape == (bins,), f"{given.size} weights for {bins} bins")
    invariant(bool((given >= 0).all() and np.isfinite(given).all()), "a bin's weight is negative or not a number")
    heaviest = given.max()
    return np.maximum(given / heaviest, 1 / bins) if heaviest > 0 else np.ones(bins)


def bin_weights(bytes_per_bin: npt.ArrayLike, rows_per_second: npt.ArrayLike) -> Weights:
    """One weight for each bin from what it costs to keep and what it costs to run: half its share of each.

    >>> bin_weights([3, 1], [0, 0]).tolist(), bin_weights([3, 1], [0, 5]).tolist()
    ([0.375, 0.125], [0.375, 0.625])
    """
    halves = (np.asarray(load, dtype=np.float64) for load in (bytes_per_bin, rows_per_second))
    stored, run = (half / half.sum() / 2 if half.sum() > 0 else half for half in halves)
    return np.asarray(stored + run)


class _Floor:
    """The plan being made: ``seats`` has for each bin the index of its worker among the target's, or `NOWHERE`."""

    def __init__(self, route: Route, slots: IntArray, weights: Weights, slack: float) -> None:
        self.sources = route.owners
        self.slots = slots
        self.weights = weights
        self.seats = self._seats_of(route.owners)
        self.loads = self._sums(np.flatnonzero(self.seats != NOWHERE))
        self.average = float(weights.sum()) / slots.size
        self.high = self.average * (1 + slack)
        self.low = self.average * (1 - slack)

    def shed(self) -> None:
        """Put into the pool what overloaded workers can give without falling below their share, big bins first.

        Each pass takes the longest run that fits, and so at least half of what is still too much. Afterwards no bin
        that is left would fit: such a worker is above its share by less than one bin.
        """
        excess = np.maximum(self.loads - self.high, 0)
        over = np.flatnonzero((self.seats != NOWHERE) & (excess[self.seats] > 0))[::-1]
        over = over[np.argsort(-self.weights[over], kind="stable")]
        over = over[_sorted_by(self.seats[over])]
        while (over := over[self.weights[over] <= excess[self.seats[over]]]).size:
            fits = _running_sums(self.weights[over], self.seats[over]) <= excess[self.seats[over]]
            if not fits.any():
                return  # rounding: the first of a run fits by itself, but not as a difference of sums
            excess -= self._sums(over[fits])
            self._unseat(over[fits])
            over = over[~fits]

    def send_home(self, homes: IntArray) -> None:
        """Give bins of the pool to workers that already have a copy of them, as far as their share goes."""
        wanted = self._seats_of(np.asarray(homes, dtype=np.int32))
        bins = np.flatnonzero((self.seats == NOWHERE) & (wanted != NOWHERE))
        bins = bins[_sorted_by(wanted[bins])]
        room = (self.high - self.loads)[wanted[bins]]
        fits = _running_sums(self.weights[bins], wanted[bins]) <= room
        self._seat(bins[fits], wanted[bins[fits]])

    def place_heavy(self) -> None:
        """Give the outliers of the pool, heaviest first, each to the worker with the least load."""
        pool = np.flatnonzero(self.seats == NOWHERE)
        if not pool.size:
            return
        heavy = pool[self.weights[pool] > 2 * self.weights[pool].mean()]
        heavy = heavy[np.argsort(-self.weights[heavy], kind="stable")][:PLACED_SINGLY_MAX]
        queue = [(load, seat) for seat, load in enumerate(self.loads.tolist())]
        heapq.heapify(queue)
        seats = []
        for weight in self.weights[heavy].tolist():
            load, seat = queue[0]
            heapq.heapreplace(queue, (load + weight, seat))
            seats.append(seat)
        self._seat(heavy, np.array(seats, dtype=np.int64))

    def deal_light(self) -> None:
        """Give the rest of the pool to the workers below the level it lifts them to.

        A bin goes to the worker in whose gap it begins. So a worker gets its gap plus at most the end of its last bin.
        """
        pool = np.flatnonzero(self.seats == NOWHERE)
        if not pool.size:
            return
        pool = pool[_sorted_by(self.sources[pool])]
        ends = np.cumsum(self.weights[pool])
        gaps = np.maximum(_level(self.loads, float(ends[-1])) - self.loads, 0)
        seats = np.searchsorted(np.cumsum(gaps), ends - self.weights[pool], side="right")
        self._seat(pool, np.minimum(seats, np.flatnonzero(gaps)[-1]))

    def pull(self) -> None:
        """Let workers that are more than one bin below their share take from the most loaded, one bin at a time.

        Who gives stays above ``low`` less one bin, who takes stays below the average: both ends only get better.
        """
        order = _sorted_by(self.seats)
        starts = np.searchsorted(self.seats[order], np.arange(self.slots.size + 1))
        while (taker := int(self.loads.argmin())) != (giver := int(self.loads.argmax())):
            over = self.loads[giver] - self.average
            if self.loads[taker] >= self.low - 1 - ROUNDING or over <= 0:
                return
            held = order[starts[giver] : starts[giver + 1]]
            held = held[self.seats[held] == giver]
            enough = held[self.weights[held] >= over]
            chosen = enough[self.weights[enough].argmin()] if enough.size else held[self.weights[held].argmax()]
            self._unseat(np.array([chosen]))
            self._seat(np.array([chosen]), np.array([taker]))

    def _seats_of(self, owners: IntArray) -> npt.NDArray[np.int64]:
        at = np.minimum(np.searchsorted(self.slots, owners), self.slots.size - 1)
        return np.where(self.slots[at] == owners, at, NOWHERE)

    def _sums(self, bins: npt.NDArray[np.int64]) -> Weights:
        return np.bincount(self.seats[bins], self.weights[bins], minlength=self.slots.size).astype(np.float64)

    def _unseat(self, bins: npt.NDArray[np.int64]) -> None:
        self.loads -= self._sums(bins)
        self.seats[bins] = NOWHERE

    def _seat(self, bins: npt.NDArray[np.int64], seats: npt.NDArray[np.int64]) -> None:
        self.seats[bins] = seats
        self.loads += self._sums(bins)


def _sorted_by(keys: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """A stable order; NumPy sorts 16-bit numbers by radix, several times faster than wider ones."""
    narrow = keys.size and keys.min() >= 0 and keys.max() < 1 << 16
    return np.argsort(keys.astype(np.uint16) if narrow else keys, kind="stable")


def _running_sums(weights: Weights, groups: npt.NDArray[np.int64]) -> Weights:
    """Cumulative sums that begin anew with each group; members of a group are neighbours."""
    if not weights.size:
        return weights
    sums = np.cumsum(weights)
    firsts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    before = sums[firsts] - weights[firsts]
    return sums - np.repeat(before, np.diff(firsts, append=weights.size))


def _level(loads: Weights, poured: float) -> float:
    """How high ``poured`` weight lifts the lowest loads: the level of water over an uneven floor."""
    ascending = np.sort(loads)
    levels = (poured + np.cumsum(ascending)) / np.arange(1, loads.size + 1)
    return float(levels.min())
