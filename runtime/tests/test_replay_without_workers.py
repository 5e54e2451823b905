"""A driver dies between an epoch's record and Spark's commit, and workers of that record are lost.

The epoch runs again and its output must be emitted again, including that of bins whose worker is missing. Other workers compute
it from the log, in temporary stores, and get the bins in the next epoch.
"""

from __future__ import annotations

import pytest

from binshift.engine.migration_options import MigrationOptions
from binshift.errors import EpochFailed
from binshift.model import Epoch, Worker
from simulator import Effect, Fault, Faults, Row, SimulatedCluster, Totals, Tuning

TAKES_OVER = Tuning(take_over=True, defaults=MigrationOptions(batch_size=512))


def rows(number: int, keys: int = 40) -> list[Row]:
    return [{"key": f"k{i}", "value": number * 100 + i, "time": number} for i in range(number % 3, keys, 2)]


class Misfortune:
    """Kills the driver at Spark's commit of some epochs, and removes workers at that moment.

    Attributes:
        gone: the removed workers, by epoch.
        deaths: of executors afterwards, each when its task is done.
    """

    def __init__(self) -> None:
        self.gone: dict[int, list[int]] = {}
        self.deaths = 0
        self.cluster: SimulatedCluster | None = None

    def __call__(self, effect: Effect) -> Fault | None:
        for epoch, workers in self.gone.items():
            if effect.what == f"Spark's commit of epoch {epoch}":
                del self.gone[epoch]
                assert self.cluster is not None
                for worker in workers:
                    self.cluster.away(worker)
                return Fault.KILL
        if self.deaths and not self.gone and effect.what.startswith("sending its summary"):
            self.deaths -= 1
            return Fault.KILL
        return None


def cluster_of(
    workers: int, *, bins: int = 16, slots: int | None = None, tuning: Tuning = TAKES_OVER
) -> tuple[SimulatedCluster, Misfortune]:
    """A cluster after three epochs."""
    misfortune = Misfortune()
    cluster = SimulatedCluster(
        Totals(), workers=workers, bins=bins, slots=slots, tuning=tuning, faults=Faults(misfortune)
    )
    misfortune.cluster = cluster
    for number in range(3):
        cluster.epoch(rows(number))
        cluster.background()
    return cluster, misfortune


@pytest.mark.parametrize(("bins", "away"), [(4, [1]), (16, [1]), (16, [0, 2]), (16, [0, 1, 2]), (4096, [2])])
def test_an_epoch_is_emitted_again_without_its_workers(bins: int, away: list[int]) -> None:
    """The output is the recorded epoch's, the next epoch's bins go to the registered workers, and its result is correct."""
    cluster, misfortune = cluster_of(3, bins=bins, slots=4)
    misfortune.gone = {3: away}
    cluster.epoch(rows(3))
    assert cluster.world.stream.deliveries[Epoch(3)] == 2
    cluster.epoch(rows(4))
    assert cluster.route is not None
    assert not set(cluster.route.workers) & set(away)
    for worker in away:
        cluster.back(worker)
    cluster.settle()
    cluster.epoch(rows(5))
    cluster.settle()
    assert cluster.route.workers == (0, 1, 2)
    cluster.witness.rebuild()
    assert cluster.leftovers() == {}


def test_the_first_epoch_is_emitted_again_without_a_worker() -> None:
    """There is no state before it, and nothing to bring up."""
    misfortune = Misfortune()
    cluster = SimulatedCluster(Totals(), workers=2, tuning=TAKES_OVER, faults=Faults(misfortune))
    misfortune.cluster = cluster
    misfortune.gone = {0: [1]}
    cluster.epoch(rows(0))
    cluster.epoch(rows(1))
    assert cluster.route is not None
    assert cluster.route.workers == (0,)


def test_drivers_may_die_there_again_and_again() -> None:
    """Each driver emits the epoch again, with fewer workers each time."""
    cluster, _ = cluster_of(3, slots=3)
    cluster.world.stream.offer(rows(3), 3_000)
    cluster.witness.expect(cluster.world.stream.batches[-1])
    cluster.driver.epoch(cluster.world.stream.batches[-1])
    cluster.away(1)
    cluster.restart_driver()
    cluster.driver.epoch(cluster.world.stream.batches[-1])
    cluster.away(2)
    cluster.finish()
    assert cluster.world.stream.deliveries[Epoch(3)] == 3
    cluster.epoch(rows(4))
    assert cluster.route is not None
    assert cluster.route.workers == (0,)


@pytest.mark.parametrize("bins", [16, 4096])
@pytest.mark.parametrize("away", [[], [1]], ids=["all there", "one away"])
def test_runs_of_a_replay_may_fail_one_after_the_other(bins: int, away: list[int]) -> None:
    """If executors die when their stores are already at the recorded state, the next run undoes or rebuilds, and emits the same."""
    cluster, misfortune = cluster_of(3, bins=bins)
    misfortune.gone, misfortune.deaths = {3: away}, 3
    cluster.epoch(rows(3))
    assert misfortune.deaths == 0
    cluster.epoch(rows(4))
    cluster.background()
    cluster.witness.rebuild()


def test_a_worker_that_comes_back_after_the_epoch_was_emitted_without_it_goes_on() -> None:
    """Its store, which is an epoch behind or undone, is brought to the recorded state."""
    cluster, misfortune = cluster_of(2)
    misfortune.gone = {3: [1]}
    cluster.epoch(rows(3))
    cluster.back(1)
    cluster.epoch(rows(4))
    cluster.settle()
    cluster.epoch(rows(5))
    assert cluster.route is not None
    assert cluster.route.workers == (0, 1)
    cluster.witness.rebuild()


def test_an_idle_worker_of_the_record_is_not_waited_for() -> None:
    """A worker that took part only to give its last bins away is omitted from a replay, even without a takeover."""
    cluster, misfortune = cluster_of(2, tuning=Tuning())
    cluster.rescale(1, "AllAtOnce", pre_copy=False)
    misfortune.gone = {3: [1]}
    cluster.epoch(rows(3))
    cluster.settle()
    assert cluster.world.stream.deliveries[Epoch(3)] == 2
    cluster.epoch(rows(4))
    assert cluster.route is not None
    assert cluster.route.workers == (0,)


def test_without_takeover_a_replay_waits_for_workers_that_own_bins() -> None:
    """Without a takeover, a replay waits like any other epoch."""
    cluster, misfortune = cluster_of(2, tuning=Tuning())
    misfortune.gone = {3: [1]}
    with pytest.raises(EpochFailed, match="no executor for worker 1"):
        cluster.epoch(rows(3))
    cluster.back(1)
    cluster.epoch(rows(4))


def test_nothing_of_an_absent_worker_s_is_touched() -> None:
    """The replacement uses a separate store: neither the worker's own store nor that of the computing worker changes."""
    cluster, misfortune = cluster_of(2)
    held = cluster.world.machines[Worker(1)].open_unfaulted("totals").status()
    misfortune.gone = {3: [1]}
    cluster.epoch(rows(3))
    after = cluster.world.machines[Worker(1)].open_unfaulted("totals").status()
    assert after.stamp.epoch == 3
    assert after.owned == held.owned
    here = cluster.world.machines[Worker(0)].open_unfaulted("totals").status()
    assert not here.owned & held.owned
    assert not here.copies.keys() & set(held.owned)
