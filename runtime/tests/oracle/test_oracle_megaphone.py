"""The most difficult configurations of Megaphone's own tests, by name (PVLDB 12(9), 2019, section 3).

Control updates at adjacent times, one for the very next time, a bin that moves and moves back, updates in the wrong
order, and moves without input. The cluster checks output, state, owners and log after every epoch.
"""

from __future__ import annotations

import random

import pytest
from oracle_flows import chain, flows_for, rows_for

from binshift.engine.epoch_plan import BatchOffsets
from binshift.errors import InvalidRoute, LogDamaged
from binshift.invariants import InvariantViolated
from binshift.log.records.commits import CommitRecord, Part, route_changes
from binshift.migration import Limits
from binshift.model import Bin, Moves, Worker
from binshift.strategies import Strategy
from simulator import Flow, SimulatedCluster, Tuning

pytestmark = pytest.mark.oracle

AT_ONCE = Tuning(limits=Limits(steps_inflight_max=4, flips_per_epoch_max=1))


def busy(cluster: SimulatedCluster, epochs: int, seed: int = 1) -> None:
    """Epochs with input, each followed by a round."""
    for _ in range(epochs):
        number = len(cluster.world.stream.batches)
        cluster.epoch(rows_for(random.Random(seed * 1000 + number), number, 12, 20))
        cluster.background()


def flips(cluster: SimulatedCluster) -> dict[int, dict[int, int]]:
    """The control updates so far: by epoch, bin to worker."""
    owners = cluster.witness.owners
    return {
        epoch: moved
        for epoch in range(1, len(owners))
        if (moved := {b: now for b, now in enumerate(owners[epoch]) if now != owners[epoch - 1][b]})
    }


def test_control_updates_at_adjacent_epochs() -> None:
    """Steps of a fluid plan take effect in consecutive epochs."""
    cluster = SimulatedCluster(chain(), bins=8, workers=1, slots=2, tuning=AT_ONCE)
    busy(cluster, 3)
    cluster.rescale(2, "Fluid", pre_copy=False)
    cluster.background()
    busy(cluster, 6)
    epochs = sorted(flips(cluster))
    assert len(epochs) == 4
    assert epochs == list(range(epochs[0], epochs[0] + 4))


def test_an_update_for_the_very_next_epoch() -> None:
    """A move without pre-copy that is requested between two epochs takes effect in the second."""
    cluster = SimulatedCluster(chain(), bins=8, workers=2, slots=2)
    busy(cluster, 3)
    next_epoch = cluster.last + 1
    cluster.move({0: 1}, pre_copy=False)
    busy(cluster, 1)
    assert flips(cluster) == {next_epoch: {0: 1}}


def test_an_update_for_the_first_epoch_after_the_first() -> None:
    """A rescale that is requested before the first epoch waits for a route to start from."""
    cluster = SimulatedCluster(chain(), bins=8, workers=1, slots=2)
    migration = cluster.rescale(2, "AllAtOnce", pre_copy=False)
    busy(cluster, 4)
    assert migration.status == "settled"
    assert sum(map(len, flips(cluster).values())) == 4


@pytest.mark.parametrize("pre_copy", [True, False])
def test_a_bin_moves_and_moves_back(pre_copy: bool) -> None:
    """A bin that returns finds its old copy, or none, and is correct either way."""
    cluster = SimulatedCluster(chain(), bins=8, workers=2, slots=2)
    busy(cluster, 4)
    assert cluster.route is not None
    bin = Bin(3)
    home = cluster.route.owner(bin)
    for owner in (1 - home, home, 1 - home, home):
        cluster.move({bin: owner}, pre_copy=pre_copy)
        busy(cluster, 4)
    assert list(flips(cluster).values()) == [{bin: 1 - home}, {bin: home}] * 2


def test_a_bin_moves_back_while_its_retirement_is_due() -> None:
    """The second request arrives right after the flip's record, when the source still keeps its copy for a replay."""
    cluster = SimulatedCluster(chain(), bins=8, workers=2, slots=2)
    busy(cluster, 3)
    cluster.move({0: 1}, pre_copy=False)
    cluster.epoch([])
    second = cluster.move({0: 0}, pre_copy=False)
    cluster.epoch([])
    cluster.epoch([])
    busy(cluster, 2)
    assert second.status == "settled"
    assert list(flips(cluster).values()) == [{0: 1}, {0: 0}]


def test_rollback_is_a_move_back() -> None:
    """A rescale is cancelled halfway; a target of the old workers moves the bins back, and nothing of the new one remains."""
    cluster = SimulatedCluster(chain(), bins=16, workers=2, slots=4)
    busy(cluster, 3)
    before = cluster.route
    first = cluster.rescale(4, "Fluid")
    busy(cluster, 5)
    first.cancel()
    busy(cluster, 2)
    assert first.status == "cancelled"
    assert cluster.route != before
    assert before is not None
    cluster.rescale(2)
    cluster.settle()
    busy(cluster, 2)
    assert cluster.route is not None
    assert cluster.route.workers == before.workers
    assert cluster.leftovers() == {}


def test_updates_in_the_wrong_order_are_refused() -> None:
    """A control update made for another route is rejected, and a record with one is never written."""
    cluster = SimulatedCluster(chain(), bins=8, workers=2, slots=2)
    busy(cluster, 2)
    log = cluster.driver.log
    assert log.index.route is not None
    with pytest.raises(InvalidRoute, match="bin 0 is owned by worker 0, not by 1"):
        log.index.route.moved(Moves([0], [1], [0]))
    epoch = log.index.last + 1
    parts = tuple(Part("chain", worker, f"{log.term}.{epoch}.0.{worker}", None) for worker in (0, 1))
    record = CommitRecord(
        epoch=epoch,
        term=log.term,
        run=0,
        previous=log.index.tip,
        batch_time_ms=0,
        offsets_hash="",
        route_version=log.index.route.version + 1,
        moves=route_changes(Moves([0], [1], [0])),
        workers=(0, 1),
        parts=parts,
        manifest=max(log.index.manifests, default=None),
    )
    with pytest.raises(InvariantViolated, match="moves bin 0 to the worker that has it"):
        log.append(record)
    busy(cluster, 2)


def test_an_epoch_out_of_order_is_refused() -> None:
    """An epoch that skips one, or one before the last, cannot be planned."""
    cluster = SimulatedCluster(chain(), bins=8, workers=2, slots=2)
    busy(cluster, 3)
    for epoch in (cluster.last + 2, cluster.last - 1):
        with pytest.raises(LogDamaged, match=f"batch {epoch}"):
            cluster.driver.coordinator.plan(epoch, BatchOffsets(0, 0, ""), cluster.world.alive)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("pre_copy", [True, False])
@pytest.mark.parametrize("idle", [True, False])
def test_every_strategy_out_and_in(strategy: Strategy, pre_copy: bool, idle: bool) -> None:
    """Out to four workers and in to one, on a busy stream and on one without any input."""
    flows: dict[str, Flow] = flows_for(random.Random(str((strategy, pre_copy, idle))))
    cluster = SimulatedCluster(flows, bins=16, workers=2, slots=4)
    busy(cluster, 4)
    for workers in (4, 1):
        migration = cluster.rescale(workers, strategy.value, pre_copy=pre_copy)
        if not idle:
            busy(cluster, 10)
        cluster.settle()
        assert migration.status == "settled"
        assert cluster.route is not None
        assert cluster.route.workers == tuple(Worker(w) for w in range(workers))
    busy(cluster, 3)
    assert cluster.leftovers() == {}


def test_a_rescale_supersedes_another() -> None:
    """Of two requests the newer one is reached; the older one ends where it does no harm."""
    cluster = SimulatedCluster(chain(), bins=16, workers=1, slots=4)
    busy(cluster, 3)
    older = cluster.rescale(4, "Fluid")
    busy(cluster, 3)
    newer = cluster.rescale([1, 2])
    cluster.settle()
    assert (older.status, newer.status) == ("cancelled", "settled")
    assert cluster.route is not None
    assert cluster.route.workers == (1, 2)
