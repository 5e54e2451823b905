"""Standby copies: a lost worker's bins are its standbys' in the same epoch, and copies follow the route.

The random histories have standbys as well. Each story here reaches a state that they reach rarely.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest
from test_oracle_loops import LOOP_STORIES, begun, rows

from binshift.model import BinSet, Worker
from binshift.replicas import standby_workers
from simulator import SimulatedCluster, Tuning

pytestmark = pytest.mark.oracle

STANDING = Tuning(take_over=True, standby_replicas=1, lost_worker_seconds=30.0)


def copied(cluster: SimulatedCluster) -> SimulatedCluster:
    """After enough rounds for every standby copy to be complete."""
    for _ in range(20):
        if not cluster.background():
            return cluster
    raise AssertionError("standby copies are never complete")


def wanted(cluster: SimulatedCluster) -> dict[Worker, BinSet]:
    """The standby copies that each worker is to have by the route."""
    assert cluster.route is not None
    of_bin = standby_workers(cluster.route)
    return {
        w: BinSet([b for b, at in enumerate(of_bin.tolist()) if at == w]) for w in map(Worker, set(of_bin.tolist()))
    }


def lose(cluster: SimulatedCluster, workers: Collection[int]) -> float:
    """Lose workers, and run an epoch; returns the seconds that it waited."""
    for worker in workers:
        cluster.away(worker)
    before = cluster.world.clock.now
    cluster.epoch(rows(len(cluster.world.stream.batches)))
    return cluster.world.clock.now - before


def brought_up(cluster: SimulatedCluster) -> int:
    """Bins that the newest epoch had to bring up."""
    return sum(each.brought_up for each in cluster.driver.dataflow.epochs.timings[-1].operators)


def test_every_bin_has_a_copy_elsewhere() -> None:
    """On the worker that the route implies, also after a rescale and after another driver has started."""
    cluster = copied(begun(STANDING))
    assert cluster.leftovers() == wanted(cluster)
    cluster.rescale(3)
    cluster.settle()
    assert cluster.leftovers() == wanted(copied(cluster))
    cluster.restart_driver()
    cluster.epoch(rows(9))
    assert cluster.leftovers() == wanted(copied(cluster))


def test_standbys_take_over_at_once() -> None:
    """The epoch does not wait, the bins go to the workers with their copies, and come back when the worker does."""
    cluster = copied(begun(replace(STANDING, snapshot_cycle_epochs=100), workers=3))
    before, standby = cluster.route, wanted(cluster)
    assert before is not None
    assert lose(cluster, [1]) == 0.0
    after = cluster.route
    assert after is not None
    gone = before.bins_of(Worker(1))
    assert gone
    assert all(b in standby[after.owner(b)] for b in gone)
    assert all(after.owner(b) == before.owner(b) for b in BinSet(range(8)) - gone)
    cluster.back(1)
    cluster.settle()
    assert cluster.route is not None
    assert len(cluster.route.bins_of(Worker(1))) in (2, 3)
    assert cluster.leftovers() == wanted(copied(cluster))


def test_a_copy_that_is_behind_catches_up_in_the_epoch() -> None:
    """Epochs that passed since the last round are applied when the standby takes over (I2)."""
    cluster = copied(begun(STANDING))
    for number in range(3, 6):
        cluster.epoch(rows(number))
    assert lose(cluster, [1]) == 0.0
    assert brought_up(cluster) == 4
    cluster.epoch(rows(8))


def test_a_standby_that_is_lost_as_well_is_no_standby() -> None:
    """Two workers are lost together: the epoch waits for both, as bins have no live copy, and the third takes over then."""
    cluster = copied(begun(STANDING, workers=3, slots=4, bins=16))
    assert 30.0 < lose(cluster, [0, 1]) < 31.0
    assert cluster.route is not None
    assert cluster.route.workers == (2,)


def test_copies_that_are_not_complete_are_waited_for() -> None:
    """Right after the start of a driver no copy is known: the worker is waited for."""
    cluster = copied(begun(STANDING))
    cluster.restart_driver()
    cluster.epoch(rows(8))
    assert lose(cluster, [1]) > 30.0


def test_a_planned_move_uses_the_copies() -> None:
    """A bin that moves to its standby needs no other copy."""
    cluster = copied(begun(STANDING))
    migrations = cluster.driver.migrations
    before = migrations.bytes_copied
    cluster.move(dict.fromkeys(wanted(cluster)[Worker(1)], 1))
    cluster.settle()
    assert migrations.bytes_copied == before
    assert cluster.route is not None
    assert cluster.route.workers == (1,)


def test_without_the_setting_no_copy_stays() -> None:
    """A driver with it off drops what one with it on has left."""
    cluster = copied(begun(STANDING))
    cluster.world.tuning = Tuning(take_over=True)
    cluster.restart_driver()
    cluster.epoch(rows(8))
    assert copied(cluster).leftovers() == {}


ENGINE_STORIES: tuple[Callable[[], None], ...] = (
    *LOOP_STORIES,
    test_every_bin_has_a_copy_elsewhere,
    test_standbys_take_over_at_once,
    test_a_copy_that_is_behind_catches_up_in_the_epoch,
    test_a_standby_that_is_lost_as_well_is_no_standby,
    test_copies_that_are_not_complete_are_waited_for,
    test_a_planned_move_uses_the_copies,
    test_without_the_setting_no_copy_stays,
)
"""The stories that the broken variants of loops and standbys are tried on."""
