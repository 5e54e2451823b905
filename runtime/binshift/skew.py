"""How unevenly the records of their bins load the workers, and how evenly a rebalance would: from counts and routes. Pure.

An epoch is over when its busiest worker is, so that the cost of a row, by measurement, is that of the busiest worker. As far as a
rebalance lowers that worker's load, a row costs less, and no other worker is needed (`binshift.autoscale`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from binshift.model import Worker
from binshift.routing import Route

SKEWED: Final = 1.3
"""From this part of its share on, the busiest worker is a reason to move bins."""

RELIEF_MAX: Final = 0.9
"""A rebalance after which a row costs more than nine tenths of what it costs now is not worth its moves."""


@dataclass(frozen=True, slots=True)
class Skew:
    """How uneven the workers' loads are, by their records.

    Attributes:
        now: the records of the busiest worker, as a multiple of the mean: 1 if all have as many.
        balanced: the same after a rebalance of the bins among the same workers.

    >>> Skew(1.5, 1.05).relief, Skew(1.5, 1.45).relief, Skew(1.2, 1.0).relief
    (0.7000000000000001, 1.0, 1.0)
    """

    now: float
    balanced: float

    @property
    def relief(self) -> float:
        """What a row costs after a rebalance, as a part of what it costs now; 1 where one is not worth its moves."""
        part = self.balanced / self.now
        return part if self.now > SKEWED and part <= RELIEF_MAX else 1.0


def skew_of(route: Route, workers: Collection[Worker], counts: npt.NDArray[np.float64]) -> float:
    """The records of the busiest worker, as a multiple of the mean of all ``workers``.

    Args:
        route: of the bins.
        workers: that share the bins, or are about to.
        counts: records by bin, not all 0.

    >>> skew_of(Route.initial(4, [Worker(0), Worker(1)]), [Worker(0), Worker(1)], np.array([3.0, 3.0, 1.0, 1.0]))
    1.5
    """
    return float(np.bincount(route.owners, weights=counts).max() * len(workers) / counts.sum())
