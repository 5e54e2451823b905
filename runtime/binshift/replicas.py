"""Which worker keeps the standby copy of each bin: a pure function of the route.

Every worker has a rank for every bin, from a hash of both, and the standby is the highest-ranked worker that does not own the bin
(rendezvous hashing). So the bins of one worker are spread over all others, and a changed route changes few standbys: a bin that
moves to its standby gets the next in rank, and its copy stays where it is if the bin moves back. A new worker becomes the standby
of its share of the bins, and no other standby changes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from binshift.model import IntArray
from binshift.routing import Route

NONE = -1
"""In the place of a worker: this bin has no standby."""


def standby_workers(route: Route) -> IntArray:
    """For each bin the worker that keeps its standby copy, never its owner; `NONE` where one worker owns all bins.

    >>> from binshift.model import Worker
    >>> standby_workers(Route.initial(4, [Worker(0), Worker(1)])).tolist(), standby_workers(Route.initial(2, [Worker(0)])).tolist()
    ([1, 1, 0, 0], [-1, -1])
    """
    chosen = np.full(route.bins, NONE, dtype=np.int32)
    best = np.zeros(route.bins, dtype=np.uint64)
    bins = np.arange(route.bins, dtype=np.uint64)
    for worker in route.workers:
        ranks = _mixed(bins + np.uint64(worker << 32))
        better = (ranks >= best) & (route.owners != worker)
        chosen[better], best[better] = worker, ranks[better]
    return chosen


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Well-mixed bits of each value, the same on every machine (the finalizer of splitmix64)."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
