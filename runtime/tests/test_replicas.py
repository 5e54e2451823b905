"""Where standby copies are: elsewhere, spread evenly, and mostly where they were after the route has changed."""

from __future__ import annotations

import numpy as np
import pytest

from binshift.model import Moves, Worker
from binshift.replicas import NONE, standby_workers
from binshift.routing import Route

BINS = 4096


def route(*workers: int) -> Route:
    """The first route of these workers."""
    return Route.initial(BINS, map(Worker, workers))


@pytest.mark.parametrize("workers", [(0, 1), (0, 1, 2), (3, 5, 8, 9), tuple(range(40))])
def test_the_bins_of_each_worker_are_spread_over_the_others(workers: tuple[int, ...]) -> None:
    """No bin's standby is its owner, and each of the others has about the same share of a worker's bins."""
    made = route(*workers)
    standby = standby_workers(made)
    assert not np.any(standby == made.owners)
    for owner in workers:
        mine = standby[made.owners == owner]
        shares = [np.count_nonzero(mine == other) for other in workers if other != owner]
        fair = len(mine) / len(shares)
        assert max(abs(share - fair) for share in shares) <= 5 * fair**0.5


def test_one_worker_has_no_standby() -> None:
    """There is nowhere to be."""
    assert (standby_workers(route(7)) == NONE).all()


def test_a_bin_that_moves_away_and_back_has_the_same_standby() -> None:
    """The copy that the first flip used is the one that the second flip leaves."""
    before = route(0, 1, 2)
    standby = standby_workers(before)
    gone = before.bins_of(Worker(1)).array
    after = before.moved(Moves(gone, before.owners[gone], standby[gone]))
    back = after.moved(Moves(gone, after.owners[gone], before.owners[gone]))
    assert np.array_equal(standby_workers(back), standby)
    assert not np.any(standby_workers(after) == 1)
    kept = (after.owners == before.owners) & (standby != 1)
    assert np.array_equal(standby_workers(after)[kept], standby[kept])


def test_a_new_worker_takes_its_share_only() -> None:
    """A standby changes only if the new worker becomes it, or owns the bin or its standby's place."""
    before = route(0, 1, 2)
    some = np.arange(0, BINS, 4, dtype=np.int32)
    after = before.moved(Moves(some, before.owners[some], np.full(len(some), 3)))
    old, new = standby_workers(before), standby_workers(after)
    changed = (old != new) & (after.owners == before.owners)
    assert (new[changed] == 3).all()
    assert np.count_nonzero(changed) < BINS / 3


def test_it_does_not_depend_on_the_machine() -> None:
    """Known places, so that a change of the hash is noticed: it would move all copies at the next start."""
    expected = [2, 1, 2, 1, 3, 3, 2, 2, 0, 0, 1, 0, 1, 2, 2, 0]
    assert standby_workers(Route.initial(16, map(Worker, range(4)))).tolist() == expected
