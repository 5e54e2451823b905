"""Targets and their order, workers that are drained or lost and return, cancelling with and without rollback."""

from __future__ import annotations

from collections import Counter

import pytest
from target_world import UID, begun, rows, slots, targets, workers

from binshift.errors import (
    DrainRefused,
    MigrationRefused,
    NoSuchMigration,
    TargetOutdated,
    TargetOwned,
)
from binshift.migration import Phase
from binshift.model import Worker
from simulator import SimulatedCluster, Totals


@pytest.fixture
def cluster() -> SimulatedCluster:
    return begun()


def test_a_target_is_ordered_by_generation(cluster: SimulatedCluster) -> None:
    """A newer generation is accepted, the same one changes nothing, an older or changed one is rejected."""
    put = targets(cluster).put
    assert put(UID, 3, slots(0, 1, 2)) is not None
    assert put(UID, 3, slots(2, 1, 0)) is None
    with pytest.raises(TargetOutdated, match="outdated by 3"):
        put(UID, 2, slots(0))
    with pytest.raises(TargetOutdated, match="was set already"):
        put(UID, 3, slots(0))
    cluster.settle()
    assert workers(cluster) == [0, 1, 2]
    assert put(UID, 4, slots(0, 1)) is not None
    cluster.settle()
    assert workers(cluster) == [0, 1]


def test_a_target_without_an_aim_has_that_of_the_settings(cluster: SimulatedCluster) -> None:
    """A target's latency applies to that target only; a new driver knows it too."""
    usual = cluster.driver.coordinator.migrations.pacer.aim_seconds
    targets(cluster).put(UID, 1, slots(0, 1, 2), latency_target_seconds=7.0)
    assert cluster.driver.coordinator.migrations.pacer.aim_seconds == 7.0
    cluster.restart_driver()
    assert cluster.driver.coordinator.migrations.pacer.aim_seconds == 7.0
    targets(cluster).put(UID, 2, slots(0, 1))
    assert cluster.driver.coordinator.migrations.pacer.aim_seconds == usual


def test_another_owner_replaces_a_target(cluster: SimulatedCluster) -> None:
    """A recreated resource has another UID, and its generations start again."""
    put = targets(cluster).put
    put(UID, 9, slots(0, 1, 2))
    assert put("other", 1, slots(0, 1)) is not None
    target = targets(cluster).target
    assert target is not None
    assert (target.owner, target.generation, target.workers) == ("other", 1, (0, 1))


def test_the_program_does_not_touch_an_operators_target(cluster: SimulatedCluster) -> None:
    """The error names the owner; the target does not change."""
    targets(cluster).put(UID, 1, slots(0, 1, 2))
    with pytest.raises(TargetOwned, match="kubectl scale"):
        targets(cluster).rescale(slots(0))
    with pytest.raises(TargetOwned, match=UID):
        cluster.move({0: 1})
    target = targets(cluster).target
    assert target is not None
    assert target.workers == (0, 1, 2)


def test_a_target_without_workers_is_refused(cluster: SimulatedCluster) -> None:
    """The bins would have no owner."""
    with pytest.raises(MigrationRefused, match="at least one worker"):
        targets(cluster).put(UID, 1, ())


def test_the_next_driver_goes_on_towards_the_target(cluster: SimulatedCluster) -> None:
    """It also knows the target's owner."""
    targets(cluster).put(UID, 1, slots(0, 1, 2, 3))
    cluster.restart_driver()
    cluster.epoch(rows(4))
    cluster.settle()
    assert workers(cluster) == [0, 1, 2, 3]
    assert targets(cluster).put(UID, 1, slots(0, 1, 2, 3)) is None


def test_a_drained_worker_has_no_bins_until_it_is_back(cluster: SimulatedCluster) -> None:
    """A new executor of the worker gets its share again; the desired target never changed."""
    cluster.rescale(3)
    cluster.settle()
    targets(cluster).drain(Worker(2))
    cluster.settle()
    assert workers(cluster) == [0, 1]
    assert targets(cluster).effective == (0, 1)
    target = targets(cluster).target
    assert target is not None
    assert target.workers == (0, 1, 2)
    for number in range(3):
        cluster.epoch(rows(number))
        cluster.background()
    assert workers(cluster) == [0, 1]
    cluster.kill(2)
    cluster.background()
    cluster.epoch(rows(8))
    cluster.settle()
    assert workers(cluster) == [0, 1, 2]


def test_the_last_worker_is_not_drained(cluster: SimulatedCluster) -> None:
    """Its bins would have no owner."""
    targets(cluster).drain(Worker(1))
    cluster.settle()
    with pytest.raises(DrainRefused, match="worker 0 is the last one"):
        targets(cluster).drain(Worker(0))


def test_a_lost_workers_bins_are_taken_over_and_given_back(cluster: SimulatedCluster) -> None:
    """Only its own bins move, the result stays correct, and after its return the target's route is restored."""
    cluster.rescale(3)
    cluster.settle()
    assert cluster.route is not None
    before = cluster.route.owners.tolist()
    cluster.away(1)
    cluster.epoch(rows(5))
    after = cluster.route.owners.tolist()
    assert 1 not in after
    assert [a for b, a in zip(before, after, strict=True) if b != 1] == [b for b in before if b != 1]
    for number in range(3):
        cluster.epoch(rows(number))
        cluster.background()
    assert 1 not in workers(cluster)
    cluster.back(1)
    cluster.background()
    cluster.epoch(rows(6))
    cluster.settle()
    assert sorted(Counter(cluster.route.owners.tolist()).values()) == [2, 3, 3]
    cluster.finish()


def test_a_worker_is_lost_in_a_migration(cluster: SimulatedCluster) -> None:
    """The migration fails and names the worker; the target is reached without it, and with it after its return."""
    migration = cluster.rescale(4, batch_size=1)
    cluster.background()
    cluster.epoch(rows(1))
    cluster.away(0)
    cluster.epoch(rows(2))
    assert migration.ended
    for number in range(12):
        cluster.background()
        cluster.epoch(rows(number))
    assert workers(cluster) == [1, 2, 3]
    cluster.back(0)
    cluster.background()
    cluster.settle()
    assert workers(cluster) == [0, 1, 2, 3]
    cluster.finish()


def test_no_worker_is_left(cluster: SimulatedCluster) -> None:
    """Without any worker, the target controller can only wait."""
    with pytest.raises(MigrationRefused, match="no other is registered"):
        targets(cluster).replace_lost(slots(0, 1), ())


def test_a_cancelled_migration_stays_where_it_is(cluster: SimulatedCluster) -> None:
    """Without rollback, moved bins stay."""
    migration = cluster.rescale(4, "Fluid")
    while not (migration.progress and migration.progress.bins_moved):
        cluster.background()
        cluster.epoch(rows(1))
    assert targets(cluster).cancel(migration.id) is migration
    cluster.settle()
    assert migration.phase is Phase.CANCELLED
    assert len(workers(cluster)) > 2
    assert workers(cluster) != [0, 1, 2, 3]


def test_a_cancelled_migration_is_rolled_back(cluster: SimulatedCluster) -> None:
    """With rollback, every bin returns to its owner."""
    assert cluster.route is not None
    before = cluster.route.owners.tolist()
    migration = cluster.rescale(4, "Fluid")
    while not (migration.progress and migration.progress.bins_moved):
        cluster.background()
        cluster.epoch(rows(1))
    back = targets(cluster).cancel(migration.id, rollback=True)
    cluster.settle()
    assert back.phase is Phase.SETTLED
    assert cluster.route.owners.tolist() == before
    with pytest.raises(NoSuchMigration, match="no migration 77"):
        targets(cluster).cancel(77)


def test_bins_are_shared_by_what_they_hold(cluster: SimulatedCluster) -> None:
    """After a rebalance no worker has much more than its share, and a restarted driver keeps it."""
    everything = [{"key": f"k{n}", "value": 1, "time": 0} for n in range(40)]
    for _ in range(8):
        cluster.epoch(everything)
        cluster.background()
    weights = cluster.driver.coordinator.bin_weights()
    assert weights is not None
    targets(cluster).rebalance()
    cluster.settle()
    assert cluster.route is not None
    shares = [float(weights[cluster.route.bins_of(w).array].sum()) for w in cluster.route.workers]
    assert max(shares) - min(shares) <= 2 * float(weights.max())
    after = cluster.route.owners.tolist()
    cluster.restart_driver()
    for number in range(3):
        cluster.epoch(rows(number))
        cluster.background()
    assert cluster.route.owners.tolist() == after
    cluster.finish()


def test_sizes_are_not_known_at_once() -> None:
    """Before the first snapshots no sizes are known."""
    cluster = SimulatedCluster({"totals": Totals()}, bins=8, workers=2, slots=2)
    cluster.epoch(rows(1))
    with pytest.raises(MigrationRefused, match="ask again later"):
        targets(cluster).rebalance()
