"""Builds a target route: workers as seats, bins as guests, weights as their loads.

The steps are those of `binshift.planner`, each a method of `Floor`. It uses weights only, never what they measure.

The pool is distributed along a line (bins sorted by their source, workers' gaps laid end to end) rather than one by one:
this is one `searchsorted` for a million bins, and it produces few, long runs between few pairs of workers, hence short
commit records and cheap matchings. Only bins much heavier than the rest are placed one at a time, heaviest first.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from binshift.model import IntArray

Weights = npt.NDArray[np.float64]

PLACED_SINGLY_MAX = 1 << 12
"""Most bins that are placed one at a time; if more are heavy, none is treated as an outlier."""

NOWHERE = -1
"""The seat of a bin in the pool."""

ROUNDING = 1e-9
"""The tolerance of sums of weights, in units of the heaviest bin."""


class Floor:
    """The plan in progress: ``seats`` has for each bin the index of its worker among the target's, or `NOWHERE`."""

    def __init__(self, owners: IntArray, slots: IntArray, weights: Weights, slack: float) -> None:
        self.sources = owners
        self.slots = slots
        self.weights = weights
        self.seats = self._seats_of(owners)
        self.loads = self._sums(np.flatnonzero(self.seats != NOWHERE))
        self.average = float(weights.sum()) / slots.size
        self.high = self.average * (1 + slack)
        self.low = self.average * (1 - slack)

    def balanced(self) -> bool:
        """Whether none of the steps below would move a bin."""
        counts = np.bincount(self.seats[self.seats != NOWHERE], minlength=self.slots.size)
        if (self.seats == NOWHERE).any() or (counts.min() == 0 and counts.max() > 1):
            return False
        if self.loads.min() < self.low - 1 - ROUNDING and self.loads.max() > self.average:
            return False
        lightest = np.full(self.slots.size, np.inf)
        np.minimum.at(lightest, self.seats, self.weights)
        above = self.loads > self.high + ROUNDING
        return not (above & (lightest < self.loads - self.loads.min() - ROUNDING)).any()

    def shed(self) -> None:
        """Move into the pool what overloaded workers can give without falling below their share, large bins first.

        Each pass takes the longest run that fits, and so at least half of the remaining excess. Afterwards no remaining bin
        would fit: such a worker is above its share by less than one bin.
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
        """Give the rest of the pool to the workers that are below the level that it lifts them to.

        A bin goes to the worker in whose gap it begins. So a worker gets its gap plus at most the rest of its last bin.
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

        The giver stays above ``low`` less one bin, and the taker below the average: both only improve.
        """
        held = _Held(self.seats, self.slots.size)
        while (taker := int(self.loads.argmin())) != (giver := int(self.loads.argmax())):
            over = self.loads[giver] - self.average
            if self.loads[taker] >= self.low - 1 - ROUNDING or over <= 0:
                return
            bins = held.of(giver)
            enough = bins[self.weights[bins] >= over]
            chosen = enough[self.weights[enough].argmin()] if enough.size else bins[self.weights[bins].argmax()]
            self._unseat(np.array([chosen]))
            self._seat(np.array([chosen]), np.array([taker]))

    def relieve(self) -> None:
        """Let workers above ``high`` give bins to the least loaded, as long as the giver stays the heavier one.

        So the lowest load never decreases, and a worker that cannot give now cannot give later: each such worker is above the
        lowest load by at most its lightest bin.
        """
        queue = [(-load, seat) for seat, load in enumerate(self.loads.tolist()) if load > self.high + ROUNDING]
        if not queue:
            return
        heapq.heapify(queue)
        held = _Held(self.seats, self.slots.size)
        while queue:
            giver, taker = heapq.heappop(queue)[1], int(self.loads.argmin())
            bins = held.of(giver)
            gap, over = self.loads[giver] - self.loads[taker], self.loads[giver] - self.high
            bins = bins[self.weights[bins] < gap - ROUNDING]
            if not bins.size or over <= ROUNDING:
                continue
            chosen = self._relief(bins, over, gap / 2, self.high - self.loads[taker])
            self._unseat(chosen)
            self._seat(chosen, np.full(chosen.size, taker))
            held.moved(chosen, taker)
            for seat in (giver, taker):
                if self.loads[seat] > self.high + ROUNDING:
                    heapq.heappush(queue, (-float(self.loads[seat]), seat))

    def _relief(self, bins: npt.NDArray[np.int64], over: float, half: float, room: float) -> npt.NDArray[np.int64]:
        """Which of ``bins`` a worker gives, that is ``over`` above its share and twice ``half`` above the taker, which has ``room``.

        One bin that is enough, or else as many as are not too much, the heaviest first; or else the one that evens the two best.
        """
        weights = self.weights[bins]
        enough = (weights >= over) & (weights <= room)
        if enough.any():
            return bins[[np.where(enough, weights, np.inf).argmin()]]
        order = np.argsort(-weights, kind="stable")
        bins, weights = bins[order], weights[order]
        small = weights <= min(over, half)
        if not small.any():
            return bins[[abs(weights - half).argmin()]]
        return bins[small][: max(1, int(np.searchsorted(np.cumsum(weights[small]), min(over, half), side="right")))]

    def occupy(self) -> None:
        """Let workers without any bin take the lightest bin of the workers with most bins, as far as one has two."""
        counts = np.bincount(self.seats, minlength=self.slots.size)
        if counts.min() > 0:
            return
        held = _Held(self.seats, self.slots.size)
        for taker in np.flatnonzero(counts == 0).tolist():
            giver = int(counts.argmax())
            if counts[giver] < 2:
                return
            bins = held.of(giver)
            chosen = bins[self.weights[bins].argmin()]
            self._unseat(np.array([chosen]))
            self._seat(np.array([chosen]), np.array([taker]))
            counts[[giver, taker]] += (-1, 1)

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


class _Held:
    """The bins of each worker, while some change seats."""

    def __init__(self, seats: npt.NDArray[np.int64], workers: int) -> None:
        self._seats = seats
        self._order = _sorted_by(seats)
        self._starts = np.searchsorted(seats[self._order], np.arange(workers + 1))
        self._received: dict[int, list[int]] = {}

    def moved(self, bins: npt.NDArray[np.int64], seat: int) -> None:
        """Record the bins' new seat."""
        self._received.setdefault(seat, []).extend(bins.tolist())

    def of(self, seat: int) -> npt.NDArray[np.int64]:
        """The current bins of a worker."""
        first = self._order[self._starts[seat] : self._starts[seat + 1]]
        bins = np.concatenate([first, np.array(self._received.get(seat, []), dtype=np.int64)])
        return np.unique(bins[self._seats[bins] == seat])


def _sorted_by(keys: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """A stable order; NumPy sorts 16-bit numbers by radix, several times faster than wider ones."""
    narrow = keys.size and keys.min() >= 0 and keys.max() < 1 << 16
    return np.argsort(keys.astype(np.uint16) if narrow else keys, kind="stable")


def _running_sums(weights: Weights, groups: npt.NDArray[np.int64]) -> Weights:
    """Cumulative sums that restart with each group; members of a group are adjacent."""
    sums = np.cumsum(weights)
    firsts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    before = sums[firsts] - weights[firsts]
    return sums - np.repeat(before, np.diff(firsts, append=weights.size))


def _level(loads: Weights, poured: float) -> float:
    """How high ``poured`` weight lifts the lowest loads: the level of water over an uneven floor."""
    ascending = np.sort(loads)
    levels = (poured + np.cumsum(ascending)) / np.arange(1, loads.size + 1)
    return float(levels.min())
