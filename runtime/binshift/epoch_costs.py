"""What epochs cost, by measurement: the model behind bounded epochs and the number of workers (`binshift.load`, `binshift.autoscale`).

An epoch takes ``fixed + per_row * rows / workers`` seconds: a part that input does not change (planning, records, fsyncs) and one
that grows with the rows of a worker. Both come from epochs that nothing disturbed. This module only computes: epochs are
arguments, no clock is read.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median

from binshift.model import Epoch

SIZE_SAMPLES = 8
"""Epochs kept of each size, the newest: a steady load must not push out the smaller epochs that show the fixed part."""

SAMPLE_EPOCHS_MAX = 500_000
"""Epochs after which one is forgotten. A load can be steady for hours, and only smaller epochs show the fixed part."""

WARMING_EPOCHS = 3
"""First epochs of a driver, which are not counted: code is compiled in them."""

APART = 2.0
"""Sizes that differ by less show mostly noise."""

NEWEST = 8
"""Epochs that show what a row costs now."""

TELLING = 1.5
TELLING_MIN = 3
"""An epoch that takes less than 1.5 times the fixed part shows little of its rows; fewer than three such epochs are not enough."""

GROWTH_MAX = 4.0
"""How many times larger than any known one an epoch can be allowed to be: the model is not trusted further."""

FIRST_ROWS = 10_000
"""Rows per worker of an epoch before any cost is known."""

MARGIN = 0.9
"""Share of the time allowed that an epoch is planned for."""


@dataclass(frozen=True, slots=True)
class EpochLoad:
    """One epoch as the model sees it.

    Attributes:
        epoch: which one.
        ended: when, in seconds since 1970.
        seconds: from its trigger to its end.
        rows: read from each source.
        workers: that owned bins.
        disturbed: bins moved, or it ran more than once.
        behind: rows that the sources had beyond those taken; None where no source knows.
        bound: rows that it was allowed to take; None: no bound.
        overhead: seconds of it that were measured as no work on rows: planning, its record, the stores' commits.
    """

    epoch: Epoch
    ended: float
    seconds: float
    rows: tuple[int, ...]
    workers: int
    disturbed: bool = False
    behind: int | None = None
    bound: int | None = None
    overhead: float = 0.0

    @property
    def began(self) -> float:
        """When it was triggered."""
        return self.ended - self.seconds

    @property
    def total(self) -> int:
        """Rows from all sources."""
        return sum(self.rows)


@dataclass(frozen=True, slots=True)
class EpochCost:
    """The cost of an epoch: ``fixed`` seconds, and ``per_row`` for each row of a worker.

    Attributes:
        certain: epochs of different sizes have shown which part is fixed; else ``per_row`` can be far too high.
    """

    fixed: float
    per_row: float
    certain: bool = True

    def rows_within(self, seconds: float, workers: int) -> float:
        """How many rows an epoch of that length has.

        Where the fixed part leaves less than half of the time, the epoch has the rows of another fixed part instead: shorter ones would
        mostly be overhead.

        >>> [round(EpochCost(fixed, 0.00001).rows_within(0.6, 2)) for fixed in (0.1, 0.5)]
        [100000, 100000]
        """
        if self.per_row <= 0:
            return math.inf
        return workers * max(seconds - self.fixed, self.fixed) / self.per_row


@dataclass
class EpochCosts:
    """Learns the cost from epochs: the fixed part from epochs of different sizes, however old, and the cost of a row from the newest.

    Sizes are powers of two of the rows per worker, and medians are taken, so that one slow epoch counts for little. What was learnt on
    some workers holds for any number of them.
    """

    _sizes: dict[int, deque[EpochLoad]] = field(default_factory=dict)
    _newest: deque[EpochLoad] = field(default_factory=lambda: deque(maxlen=NEWEST))
    _seen: int = 0

    def add(self, epoch: EpochLoad) -> None:
        """One more epoch, in order; disturbed ones and the first few are not counted."""
        self._seen += 1
        if epoch.disturbed or self._seen <= WARMING_EPOCHS:
            return
        self._newest.append(epoch)
        size = int(_rows(epoch)).bit_length()
        self._sizes.setdefault(size, deque(maxlen=SIZE_SAMPLES)).append(epoch)
        for each in [s for s, kept in self._sizes.items() if kept[-1].epoch < epoch.epoch - SAMPLE_EPOCHS_MAX]:
            del self._sizes[each]

    @property
    def measured(self) -> int:
        """Epochs that count."""
        return max(0, self._seen - WARMING_EPOCHS)

    @property
    def largest(self) -> float:
        """Rows per worker of the largest known epoch; 0 without one."""
        return max((_rows(each) for kept in self._sizes.values() for each in kept), default=0.0)

    @property
    def cost(self) -> EpochCost | None:
        """As the epochs show it; None before one with input. While all are of one size, no part of it is taken to be fixed."""
        points = sorted(
            (median(map(_rows, kept)), median(each.seconds for each in kept)) for kept in self._sizes.values()
        )
        if not points or points[-1][0] <= 0:
            return None
        slopes = [(t2 - t1) / (x2 - x1) for (x1, t1), (x2, t2) in combinations(points, 2) if x2 > APART * x1]
        rows, seconds = points[-1]
        per_row = min(max(median(slopes), 0.0), seconds / rows) if slopes else seconds / rows
        fixed = min(median(t - per_row * x for x, t in points), *(each.seconds for each in self._newest))
        fixed = max(0.0, fixed, median(each.overhead for each in self._newest))
        telling = [each for each in self._newest if each.total and each.seconds > TELLING * fixed]
        if len(telling) >= TELLING_MIN:
            per_row = median((each.seconds - fixed) / _rows(each) for each in telling)
        return EpochCost(fixed, per_row, certain=bool(slopes))


def bound_rows(costs: EpochCosts, max_seconds: float, workers: int) -> int:
    """How many rows the next epoch takes at most: as many as ``max_seconds`` allow, and a few as long as nothing is known."""
    cost = costs.cost
    if cost is None:
        return FIRST_ROWS * workers
    trusted = GROWTH_MAX * costs.largest * workers
    return max(1, int(min(cost.rows_within(MARGIN * max_seconds, workers), trusted)))


def _rows(epoch: EpochLoad) -> float:
    return epoch.total / epoch.workers


def shares(rows: int, came: Sequence[int], bounded: Collection[int]) -> list[int]:
    """Divides the rows of an epoch among its sources, in proportion to what came from each, and at least a tenth of an equal part.

    Args:
        rows: of all sources that can be bounded.
        came: rows that came from each source recently.
        bounded: sources that can be bounded; the others get 0.

    >>> shares(1000, [90, 0, 5], {0, 1})
    [952, 47, 0]
    """
    total = sum(came[each] for each in bounded)
    parts = {each: max(came[each] / total if total else 1.0, 0.1 / len(bounded)) for each in bounded}
    whole = sum(parts.values())
    return [max(1, int(rows * parts[each] / whole)) if each in parts else 0 for each in range(len(came))]
