"""The standby copies that rounds order, and the lost workers that they cover, by what workers have reported."""

from __future__ import annotations

import pytest

from binshift.engine.copies import Copies
from binshift.engine.standbys import CATCH_UP_SECONDS, Standbys
from binshift.log.index.bringup import CATCH_UP_EPOCHS_MAX
from binshift.log.index.index import Index
from binshift.migration import Copy
from binshift.model import Bin, BinSet, Epoch, Worker
from binshift.replicas import standby_workers
from binshift.routing import Route
from simulator.clock import ManualClock

BINS, LAST = 16, Epoch(100)
ROUTE = Route.initial(BINS, map(Worker, range(3)))
OPERATORS = ("a", "b")


class Recorded:
    """The part of an index that standbys read."""

    route, last = ROUTE, LAST


NOTHING = (BinSet(), BinSet())
INDEX: Index = Recorded()  # type: ignore[assignment]


def wanted(worker: int) -> BinSet:
    """The standby copies of a worker."""
    return BinSet([b for b, at in enumerate(standby_workers(ROUTE).tolist()) if at == worker])


def complete(replicas: int = 1, epoch: Epoch = LAST) -> Standbys:
    """Every worker has reported all of its copies at an epoch."""
    copies = Copies(OPERATORS)
    for worker in ROUTE.workers:
        for operator in OPERATORS:
            copies.held[operator, worker] = dict.fromkeys(wanted(worker).array.tolist(), epoch)
    return Standbys(copies, replicas, ManualClock())


def test_without_replicas_there_are_none() -> None:
    """Whatever copies are held, nothing is ordered and no worker is covered."""
    standbys = complete(replicas=0)
    standbys.follow(ROUTE, moving=False)
    assert standbys.due("a", Worker(0), Epoch(LAST + 1)) == NOTHING
    assert standbys.covered(INDEX, [Worker(0)], ROUTE.workers) == []
    assert standbys.takeover(INDEX, [Worker(0)], ROUTE.workers) == {}
    assert standbys.figures(INDEX) is None


def test_a_copy_catches_up_once_a_second() -> None:
    """Copies that are behind are ordered again after a second; while some are missing, these are in each round."""
    standbys = complete()
    later = Epoch(LAST + 1)
    standbys.follow(ROUTE, moving=False)
    assert standbys.due("a", Worker(0), later) == (wanted(0), BinSet())
    standbys.follow(ROUTE, moving=False)
    assert standbys.due("a", Worker(0), later) == NOTHING
    first = wanted(0).array.tolist()[0]
    del standbys.copies.held["a", Worker(0)][first]
    assert isinstance(standbys.clock, ManualClock)
    standbys.clock.sleep(CATCH_UP_SECONDS)
    standbys.follow(ROUTE, moving=False)
    assert standbys.due("a", Worker(0), later) == (wanted(0) - BinSet([first]), BinSet([first]))
    assert standbys.due("b", Worker(0), LAST) == NOTHING
    standbys.follow(ROUTE, moving=False)
    assert standbys.due("a", Worker(0), later) == (BinSet(), BinSet([first]))


def test_while_bins_move_no_copy_begins() -> None:
    """Held copies catch up, missing ones wait, and what the migration orders is its own."""
    standbys = complete()
    first, second, *_ = wanted(0).array.tolist()
    del standbys.copies.held["a", Worker(0)][first]
    standbys.copies.order(Copy(0, Worker(0), BinSet([second]), 0))  # type: ignore[arg-type]
    standbys.follow(ROUTE, moving=True)
    assert standbys.due("a", Worker(0), Epoch(LAST + 1)) == (wanted(0) - BinSet([first, second]), BinSet())


def test_a_copy_that_is_too_old_is_a_new_one() -> None:
    """It is loaded again, which does not come before the catching up of others."""
    standbys = complete()
    first = wanted(0).array.tolist()[0]
    standbys.copies.held["a", Worker(0)][first] = Epoch(LAST - CATCH_UP_EPOCHS_MAX)
    standbys.follow(ROUTE, moving=False)
    assert standbys.due("a", Worker(0), Epoch(LAST + 1)) == (wanted(0) - BinSet([first]), BinSet([first]))


def test_standby_copies_are_not_dropped() -> None:
    """A retired copy that is a standby now stays, any other goes."""
    standbys = complete()
    standbys.copies.drop(Worker(0), BinSet(range(BINS)))
    standbys.follow(ROUTE, moving=False)
    assert standbys.copies.drops[Worker(0)] == BinSet(range(BINS)) - wanted(0)


def test_a_lost_worker_is_covered_by_live_copies_of_every_operator() -> None:
    """Not by a copy on a lost worker, of some operators, or so old that it would be loaded again."""
    lost, left = Worker(0), [Worker(1), Worker(2)]
    standbys = complete()
    assert standbys.covered(INDEX, [lost], left) == [lost]
    moves = standbys.takeover(INDEX, [lost], left)
    assert BinSet(moves) == ROUTE.bins_of(lost)
    assert all(worker == standby_workers(ROUTE)[b] for b, worker in moves.items())
    assert standbys.covered(INDEX, [lost, Worker(1)], [Worker(2)]) == []
    assert 0 < len(standbys.takeover(INDEX, [lost], [Worker(2)])) < len(moves)
    bin = next(iter(moves))
    del standbys.copies.held["b", moves[Bin(bin)]][bin]
    assert standbys.covered(INDEX, [lost], left) == []
    assert standbys.takeover(INDEX, [lost], left).keys() == moves.keys() - {bin}
    old = complete(epoch=Epoch(LAST - CATCH_UP_EPOCHS_MAX - 1))
    assert old.covered(INDEX, [lost], left) == []


@pytest.mark.parametrize(("behind", "lag"), [(0, 0), (3, 3)])
def test_the_figures_are_those_of_whole_copies(behind: int, lag: int) -> None:
    """A bin without a copy of one operator does not count; the lag is that of the oldest copy."""
    standbys = complete(epoch=Epoch(LAST - behind))
    del standbys.copies.held["b", Worker(0)][wanted(0).array.tolist()[0]]
    figures = standbys.figures(INDEX)
    assert figures is not None
    assert (figures.bins, figures.lag_epochs) == (BINS - 1, lag)
