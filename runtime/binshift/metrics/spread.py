"""A histogram that accepts many observations at a time, such as an epoch's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SECONDS_BUCKETS: Final = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of every histogram here, in seconds: fine in the range of normal epochs, coarse above."""


class Spread:
    """A histogram that takes many observations at once.

    >>> spread = Spread((1.0, 2.0))
    >>> spread.add(0.5, 2.5, count=4)
    >>> spread.cumulative, spread.sum
    ([1, 3, 4], 6.0)
    """

    def __init__(self, bounds: Sequence[float] = SECONDS_BUCKETS) -> None:
        self.bounds = tuple(bounds)
        self.cumulative = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, low: float, high: float, count: int = 1) -> None:
        """``count`` observations, evenly from ``low`` to ``high``."""
        for at, bound in enumerate(self.bounds):
            share = (bound - low) / (high - low) if high > low else float(low <= bound)
            self.cumulative[at] += round(count * min(1.0, max(0.0, share)))
        self.cumulative[-1] += count
        self.sum += count * (low + high) / 2

    def buckets(self) -> list[tuple[str, float]]:
        """The buckets in the form that the exposition needs."""
        return list(zip([*map(str, self.bounds), "+Inf"], map(float, self.cumulative), strict=True))
