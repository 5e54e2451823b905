"""The owner that every bin should have: from a route and a set of workers to the target route.

`target_route` handles all four cases (grow, shrink, replace workers, re-weigh) in one way:

1. *shed*: bins on leaving workers, and the excess of a worker beyond its share, go into a pool;
2. *fill*: the pool goes to the workers with the least load;
3. *pull*: workers that are still far below their share take single bins from those above it;
4. *relieve*: a worker that is still above its share gives single bins to the least loaded one, while that helps;
5. *occupy*: a worker without any bin takes a light one.

So a bin moves only if its worker leaves or has too much, or another one would have too little. This module decides
where bins move, never in which order (`binshift.strategies`) or when (`binshift.migration`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from binshift.errors import MigrationRefused
from binshift.invariants import invariant
from binshift.model import IntArray, Worker
from binshift.routing import Route
from binshift.seating import Floor, Weights

__all__ = [
    "SLACK",
    "TOLERATED",
    "Weights",
    "balanced_route",
    "bin_weights",
    "counted_weights",
    "target_route",
]

SLACK = 0.05
"""Load above the mean, as a fraction of it, that a plan leaves on a worker."""

TOLERATED = 0.10
"""Load above the mean, as a fraction of it, that does not justify a migration. More than `SLACK`, so that balance lasts for a while."""

LIGHT = 0.02
"""The lightest bins, up to this fraction of a worker's mean load in all, are balanced by number. In a young dataflow most bins are
empty: without this they would stay where they are, and so would the keys to come."""


def balanced_route(
    route: Route, workers: Sequence[Worker], weights: npt.NDArray[np.floating] | None, tolerated: float = TOLERATED
) -> Route:
    """The route over ``workers`` that is balanced by measured load, or ``route`` itself if it is already balanced.

    With weights, **the bound**: no worker has more than ``1 + TOLERATED`` (1.1) times the mean load, unless each of its bins
    is by itself heavier than a tenth of the mean; each worker owns a bin, as far as there are bins. Bins move only if the
    bound (with ``tolerated`` in place of `TOLERATED`) does not hold, and then as few as bring every worker to ``1 + SLACK`` (1.05)
    times the mean; the lightest bins, up to `LIGHT` of a mean load, also move until their numbers are equal. Applied to its own
    result with the same weights, it changes nothing. Without weights the numbers of bins differ by at most one.

    Raises:
        MigrationRefused: ``workers`` is empty.

    >>> calm = Route.initial(4, [Worker(0), Worker(1)])
    >>> balanced_route(calm, calm.workers, np.array([3.0, 1.0, 1.0, 1.0])).owners.tolist()
    [0, 1, 1, 1]
    """
    if weights is None:
        return target_route(route, workers)
    if _floor(route, workers, weights, tolerated).balanced():
        return route
    spread = Route(_spread_light(route, workers, np.asarray(weights, dtype=np.float64)), route.version)
    owners = target_route(spread, workers, weights, slack=SLACK).owners
    return route if np.array_equal(owners, route.owners) else Route(owners, route.version + 1)


def _spread_light(route: Route, workers: Sequence[Worker], weights: Weights) -> IntArray:
    """The owners once the lightest bins are balanced by number; all other bins stay."""
    ascending = np.sort(weights)
    number = int(np.searchsorted(np.cumsum(ascending), LIGHT * weights.sum() / len(workers), side="right"))
    if not number:
        return route.owners
    heaviest = ascending[number - 1]
    light = weights < heaviest
    light[np.flatnonzero(weights == heaviest)[: number - np.count_nonzero(light)]] = True
    owners = route.owners.copy()
    owners[light] = _owners(Floor(owners[light], _slots(workers), np.ones(number), 0.0))
    return owners


def target_route(
    route: Route,
    workers: Sequence[Worker],
    weights: npt.NDArray[np.floating] | None = None,
    *,
    slack: float = 0.0,
) -> Route:
    """The route over ``workers`` that is balanced by weight and close to ``route``.

    ``weights`` has one number >= 0 for each bin in any unit (see `bin_weights`); without weights all bins weigh the same. The
    bounds hold for their `counted_weights`. With A the average load of a worker, h the heaviest bin, W workers:

    - **balance**: every worker has between ``A * (1 - slack) - h`` and ``A * (1 + slack) + h``; with equal weights and no
      slack this is either floor or ceil of bins/W bins. A worker above ``A * (1 + slack)`` exceeds A by no more than the weight of
      its lightest bin;
    - **movement**: let M be the weight on leaving workers plus the excess of the others beyond ``A * (1 + slack)``: any route in
      which no worker exceeds that share must move M. At most ``M + (W - 1) * (slack * A + h)`` moves. With equal weights and
      no slack, the number of moved bins is the least of all routes with that balance.

    ``slack`` is the imbalance, as a fraction of A, that does not justify a move. With ``math.inf`` only the bins of leaving workers
    move, which is the case of a lost worker.

    A target equal to ``route`` is returned as ``route`` itself; otherwise its version is one higher.

    Raises:
        MigrationRefused: ``workers`` is empty.

    >>> grown = target_route(Route.initial(8, [Worker(0), Worker(1)]), [Worker(0), Worker(1), Worker(2), Worker(3)])
    >>> grown.owners.tolist()
    [0, 0, 2, 2, 1, 1, 3, 3]
    """
    owners = _owners(_floor(route, workers, weights, slack))
    return route if np.array_equal(owners, route.owners) else Route(owners, route.version + 1)


def _floor(route: Route, workers: Sequence[Worker], weights: npt.NDArray[np.floating] | None, slack: float) -> Floor:
    return Floor(route.owners, _slots(workers), counted_weights(weights, route.bins), slack)


def _slots(workers: Sequence[Worker]) -> IntArray:
    slots = np.unique(np.asarray(workers, dtype=np.int32))
    if not slots.size:
        raise MigrationRefused("the target has no workers: name at least one worker for the bins")
    return slots


def _owners(floor: Floor) -> IntArray:
    """The owner of each bin after all steps."""
    floor.shed()
    floor.place_heavy()
    floor.deal_light()
    floor.pull()
    if math.isfinite(floor.high):
        floor.relieve()
        floor.occupy()
    return floor.slots[floor.seats]


def counted_weights(weights: npt.NDArray[np.floating] | None, bins: int) -> Weights:
    """The weights that the planner balances by, in units of the heaviest bin.

    No bin counts for less than ``1 / bins``, so that many empty bins are still spread; together this adds at most the
    weight of one bin. If all are zero, all are equal.

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
    """One weight for each bin from its storage and its processing: half its share of each.

    >>> bin_weights([3, 1], [0, 0]).tolist(), bin_weights([3, 1], [0, 5]).tolist()
    ([0.375, 0.125], [0.375, 0.625])
    """
    halves = (np.asarray(load, dtype=np.float64) for load in (bytes_per_bin, rows_per_second))
    stored, run = (half / half.sum() / 2 if half.sum() > 0 else half for half in halves)
    return np.asarray(stored + run)
