"""Workers share bins by measured load: after a rescale or rebalance, and after the loss of the driver or a worker."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from target_world import UID, rows, slots, targets, workers

from binshift.engine.bin_records import COUNTED_EVERY_EPOCHS, RECORDS_MIN, BinRecords
from binshift.errors import MigrationRefused
from binshift.log.records import weights as packed
from binshift.migration import Phase
from binshift.model import Bin, Worker
from binshift.planner import SLACK, TOLERATED
from simulator import Row, SimulatedCluster, Totals, Tuning
from simulator.flows import bin_of

BINS = 128
HEAVY = 16


def skewed() -> SimulatedCluster:
    """16 of 128 bins, all on worker 0, have nearly all of the state; every bin has been in a snapshot."""
    made = SimulatedCluster({"totals": Totals()}, bins=BINS, workers=2, slots=4, tuning=Tuning(take_over=True))
    measured(made)
    return made


def measured(cluster: SimulatedCluster) -> None:
    """Run epochs, the first with the skewed rows, until the bytes of every bin are known."""
    cluster.epoch(skewed_rows())
    before = cluster.last
    while cluster.driver.log.index.bin_bytes() is None or cluster.last < before + 8:
        cluster.background()
        cluster.epoch(rows(1))


def skewed_rows() -> list[Row]:
    """About 600 keys of the heavy bins, and one key of each of the others."""
    keys = [f"k{n}" for n in range(5_000)]
    heavy = [key for key in keys if bin_of((key,), BINS) < HEAVY]
    light = {bin_of((key,), BINS): key for key in keys if bin_of((key,), BINS) >= HEAVY}
    return [{"key": key, "value": 1, "time": 0} for key in (*heavy, *light.values())]


def shares(cluster: SimulatedCluster, count: int) -> npt.NDArray[np.float64]:
    """The bytes of each of ``count`` workers, divided by their mean."""
    sizes = cluster.driver.log.index.bin_bytes()
    assert sizes is not None
    assert cluster.route is not None
    loads = np.bincount(cluster.route.owners, sizes, minlength=count)
    shares: npt.NDArray[np.float64] = loads / loads.mean()
    return shares


def test_a_rescale_shares_the_bytes() -> None:
    """Four workers have a quarter of the bytes each, not of the bins; by numbers one had nearly half of them."""
    cluster = skewed()
    targets(cluster).put(UID, 1, slots(0, 1, 2, 3))
    cluster.settle()
    assert workers(cluster) == [0, 1, 2, 3]
    assert shares(cluster, 4).max() <= 1 + TOLERATED + 0.05
    cluster.finish()


def test_heavy_bins_go_first() -> None:
    """With any strategy, a pair of workers exchanges its heaviest bins in its first steps."""
    cluster = skewed()
    migration = targets(cluster).put(UID, 1, slots(0, 1, 2, 3), strategy="Fluid")
    assert migration is not None
    assert migration.state is not None
    weights = migration.request.weights
    assert weights is not None
    pairs: dict[tuple[int, int], list[float]] = {}
    for move in migration.state.plan.schedule.moves:
        pairs.setdefault((move.source, move.destination), []).append(float(weights[move.bin]))
    assert all(each == sorted(each, reverse=True) for each in pairs.values())
    assert any(len(set(each)) > 1 for each in pairs.values())


def test_a_new_driver_leaves_what_is_shared() -> None:
    """It plans with the loads that the target keeps, whatever has been measured since."""
    cluster = skewed()
    targets(cluster).put(UID, 1, slots(0, 1, 2, 3))
    cluster.settle()
    assert cluster.route is not None
    before = cluster.route.owners.tolist()
    cluster.restart_driver()
    for number in range(3):
        cluster.epoch(rows(number))
        cluster.background()
    assert cluster.route.owners.tolist() == before
    assert not cluster.driver.migrations.history
    assert targets(cluster).put(UID, 1, slots(0, 1, 2, 3)) is None
    cluster.finish()


def test_a_half_done_rescale_is_ended_by_the_next_driver() -> None:
    """Bins that had not moved when the driver ended move afterwards, by the same loads."""
    cluster = skewed()
    migration = targets(cluster).put(UID, 1, slots(0, 1, 2, 3), strategy="Batched", batch_size=2)
    assert migration is not None
    while not (migration.progress and migration.progress.bins_moved):
        cluster.background()
        cluster.epoch(rows(1))
    cluster.restart_driver()
    cluster.epoch(rows(2))
    cluster.settle()
    assert shares(cluster, 4).max() <= 1 + TOLERATED + 0.05
    cluster.finish()


def test_anyone_may_rebalance_an_operators_target() -> None:
    """The target keeps its owner and generation; setting it again changes nothing."""
    cluster = SimulatedCluster({"totals": Totals()}, bins=BINS, workers=2, slots=4)
    cluster.epoch(rows(1))
    targets(cluster).put(UID, 5, slots(0, 1))
    cluster.settle()
    measured(cluster)
    assert shares(cluster, 2).max() > 1.5
    migration = targets(cluster).rebalance(strategy="Fluid")
    cluster.settle()
    assert migration.phase is Phase.SETTLED
    assert migration.request.options.strategy.value == "Fluid"
    assert shares(cluster, 2).max() <= 1 + SLACK + 0.05
    target = targets(cluster).target
    assert target is not None
    assert (target.owner, target.generation, target.workers) == (UID, 5, (0, 1))
    assert target.strategy != "Fluid"
    assert targets(cluster).put(UID, 5, slots(0, 1)) is None
    cluster.finish()


def test_a_rebalance_that_is_not_worth_it_moves_nothing() -> None:
    """It settles, with the reason that nothing had to move."""
    cluster = skewed()
    targets(cluster).put(UID, 1, slots(0, 1))
    cluster.settle()
    assert cluster.route is not None
    before = cluster.route.owners.tolist()
    again = targets(cluster).rebalance()
    cluster.settle()
    assert again.phase is Phase.SETTLED
    assert again.progress is not None
    assert again.progress.bins_total == 0
    assert "already balanced" in again.reason
    assert cluster.route.owners.tolist() == before


def test_a_worker_that_comes_back_gets_its_share_of_the_bytes() -> None:
    """The other workers keep theirs."""
    cluster = skewed()
    targets(cluster).put(UID, 1, slots(0, 1, 2))
    cluster.settle()
    cluster.away(1)
    cluster.epoch(rows(5))
    assert 1 not in workers(cluster)
    cluster.back(1)
    cluster.background()
    cluster.epoch(rows(6))
    cluster.settle()
    assert shares(cluster, 3).max() <= 1 + TOLERATED + 0.05
    cluster.finish()


def test_hot_bins_weigh_by_their_records() -> None:
    """Keys with most of the records are spread, although all bins have equal sizes: half of a weight is records."""
    cluster = SimulatedCluster({"totals": Totals()}, bins=8, workers=2, slots=2)
    by_bin = {bin_of((f"k{n}",), 8): f"k{n}" for n in range(200)}
    hot = [{"key": by_bin[bin], "value": 1, "time": 0} for bin in (Bin(0), Bin(1)) for _ in range(RECORDS_MIN // 2)]
    everything = [{"key": key, "value": 1, "time": 0} for key in by_bin.values()]
    cluster.epoch([*everything, *hot])
    cluster.background()
    assert cluster.route is not None
    assert cluster.route.owner(Bin(0)) == cluster.route.owner(Bin(1))
    targets(cluster).rebalance()
    cluster.settle()
    assert cluster.route.owner(Bin(0)) != cluster.route.owner(Bin(1))
    cluster.finish()


def test_records_are_counted_in_some_epochs_only() -> None:
    """An epoch without counts adds nothing, and few records are ignored."""
    cluster = SimulatedCluster({"totals": Totals()}, bins=8, workers=2, slots=2)
    many = [{"key": "k1", "value": 1, "time": 0} for _ in range(RECORDS_MIN)]
    cluster.epoch(rows(1))
    for _ in range(COUNTED_EVERY_EPOCHS - 1):
        cluster.epoch(many)
    assert not cluster.driver.migrations.bin_records.counts.any()
    with pytest.raises(MigrationRefused, match="ask again"):
        SimulatedCluster({"totals": Totals()}, bins=8, workers=2, slots=2).driver.targets.rebalance()
    cluster.epoch(many)
    counts = cluster.driver.migrations.bin_records.counts
    assert counts[bin_of(("k1",), 8)] >= RECORDS_MIN


def test_old_counts_are_forgotten() -> None:
    """A bin that was hot once does not stay hot forever."""
    counted = BinRecords(4)
    for bin, times in ((0, 20), (1, 40)):
        for _ in range(times):
            counted.add([np.array([[bin], [50_000]]).tobytes()])
    assert counted.counts[0] < counted.counts[1] / 1000


def test_weights_of_a_target_are_short_and_bounded() -> None:
    """The weights of a million bins fit in a target; text of another size, or without weights, is rejected."""
    rng = np.random.default_rng(random.Random(3).randrange(1 << 30))
    many = rng.random(1 << 20)
    text = packed.pack(many)
    assert len(text) < 3 << 20
    found = packed.unpack(text, 1 << 20)
    assert found is not None
    assert np.abs(found / many - 1).max() < 0.01
    for wrong, bins in ((text, 8), (packed.pack(np.array([-1.0])), 1), (packed.pack(np.array([np.inf])), 1), ("?", 1)):
        with pytest.raises(ValueError, match="weights of"):
            packed.unpack(wrong, bins)


def test_damaged_weights_share_by_numbers() -> None:
    """A damaged target must never prevent a start."""
    from binshift.engine.desired_target import weights_of
    from binshift.log.records.targets import Target

    target = Target(owner="", generation=1, workers=(0,), strategy="Fluid", batch_size=1, pre_copy=True, weights="x")
    assert weights_of(target, 4) is None


def test_a_drained_workers_bins_go_where_there_is_room() -> None:
    """The bytes of a leaving worker are distributed over the remaining ones."""
    cluster = skewed()
    targets(cluster).put(UID, 1, slots(0, 1, 2, 3))
    cluster.settle()
    targets(cluster).drain(Worker(3))
    cluster.settle()
    assert workers(cluster) == [0, 1, 2]
    assert shares(cluster, 3).max() <= 1 + TOLERATED + 0.05
    cluster.finish()
