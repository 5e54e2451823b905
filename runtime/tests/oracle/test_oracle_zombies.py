"""A replaced process changes nothing that counts (invariant I8): tasks, background rounds and drivers.

A process is suspended at some point; meanwhile another driver takes over and continues; then the process resumes. Between its
resumption and its end, no record and no row of any store may change, and its end is `Fenced`.
"""

from __future__ import annotations

import random

import pytest
from oracle_fixed import place
from oracle_flows import chain, moody, rows_for

from binshift.errors import Fenced
from binshift.log.storage.layout import RECORDS
from binshift.model import Bin, Epoch
from binshift.store.engine.contract import StoreLimits
from simulator import Fault, Faults, Flow, SimulatedCluster, Tuning

pytestmark = pytest.mark.oracle

Picture = tuple[dict[str, bytes], dict[str, object]]

IN_AN_EPOCH = {
    "a task, before its delta": ("executor 0", "finish deltas/", 1),
    "a task, before its store's commit, which raises the fence": ("executor 0", "a transaction", 1),
    "a task, before its summary": ("executor 0", "sending its summary", 1),
    "a task that takes bins over, before its fence": ("executor 2", "a transaction", 1),
    "a task that takes bins over, before its store's commit": ("executor 2", "a transaction", 5),
    "a driver, before its tasks": ("driver 1", "starting run", 1),
    "a driver, before the sink": ("driver 1", "delivering", 1),
    "a driver, before its record": ("driver 1", "create records/", 1),
}
IN_A_ROUND = {
    "a copy, before it reads": ("executor 2", "deltas/", 1),
    "a copy, before it begins": ("executor 2", "a transaction", 1),
    "a copy, before it counts": ("executor 2", "a transaction", 3),
    "a snapshot": ("executor 0", "finish snapshots/", 1),
    "a collection": ("driver 1", "delete deltas/", 1),
}


def cluster_with(faults: Faults, flow: Flow | None = None, standing: float = 0.5) -> SimulatedCluster:
    """Two workers, a third machine, and three epochs of state."""
    limits = StoreLimits(lock_seconds_max=0.05)
    tuning = Tuning(snapshot_cycle_epochs=1, collect_every_epochs=1, standing=standing, stores=limits)
    cluster = SimulatedCluster(
        flow or chain(), bins=8, workers=2, slots=3, tuning=tuning, faults=faults, deterministic=flow is None
    )
    rng = random.Random(8)
    for number in range(3):
        cluster.epoch(rows_for(rng, number, 8, 10))
        cluster.background()
    return cluster


def picture(cluster: SimulatedCluster) -> Picture:
    """The durable state: all records, and the bins that the newest one gives each worker, with stamp and rows.

    A worker without bins may be left with copies, or with bins of a run that never counted; its next task or round removes
    them.
    """
    stores: dict[str, object] = {}
    route = cluster.witness.owners[-1]
    for worker, machine in cluster.world.machines.items():
        machine.commit()
        bins = [b for b, owner in enumerate(route) if owner == worker]
        for flow in cluster.world.flows:
            with machine.open_unfaulted(flow).reader() as reader:
                stores[f"{flow} on {worker}"] = bins and (
                    reader.status.stamp,
                    reader.status.owned,
                    [part.to_pylist() for b in bins for part in reader.scan(Bin(b))],
                )
    names = [each.name for each in cluster.world.files.list(RECORDS)]
    return {name: cluster.world.files.get(name) for name in names}, stores


def goes_on_later(cluster: SimulatedCluster, faults: Faults, where: tuple[str, str, int]) -> list[Picture]:
    """Suspend the process that reaches the point while another driver continues; then take a picture."""
    pictures: list[Picture] = []

    def meanwhile() -> None:
        cluster.take_over()
        cluster.finish()
        cluster.epoch([{"key": "k1", "value": 1, "time": 0}])
        cluster.background()
        pictures.append(picture(cluster))

    faults.plan = place(*where, meanwhile)
    return pictures


@pytest.mark.parametrize("named", IN_AN_EPOCH)
def test_an_epoch_goes_on_after_another_driver_has_finished_it(named: str) -> None:
    """A task or a driver that stood still inside an epoch is shut out, and changes nothing (I8).

    A standing task sends its summary under its store's lock: while it stands still there, the store waits for it.
    """
    faults = Faults()
    cluster = cluster_with(faults, standing=0.0 if "summary" in named else 0.5)
    cluster.rescale(3, "AllAtOnce", pre_copy=False)
    cluster.background()
    pictures = goes_on_later(cluster, faults, IN_AN_EPOCH[named])
    cluster.epoch(rows_for(random.Random(2), 3, 8, 30))
    assert pictures == [picture(cluster)]
    assert [type(end) for end in cluster.ends] == [Fenced]
    cluster.settle()


@pytest.mark.parametrize("named", IN_A_ROUND)
def test_a_round_goes_on_after_another_driver_has_gone_on(named: str) -> None:
    """Suspended background work is fenced from the store, or does nothing that a record could name."""
    faults = Faults()
    cluster = cluster_with(faults)
    cluster.rescale(3, "AllAtOnce", pre_copy=True)
    pictures = goes_on_later(cluster, faults, IN_A_ROUND[named])
    for number in range(3, 16):
        cluster.background()
        if pictures:
            break
        cluster.epoch(rows_for(random.Random(number), number, 8, 10))
    assert pictures == [picture(cluster)]
    assert all(isinstance(end, Fenced) for end in cluster.ends)
    cluster.settle()


@pytest.mark.parametrize("seed", range(8))
def test_tasks_of_a_failed_run_go_on_later(seed: int) -> None:
    """Tasks that Spark considers cancelled continue at any time; the stores keep the recorded state."""
    faults = Faults()
    cluster = cluster_with(faults)
    cluster.world.rng.seed(seed)
    cluster.world.zombie_share = 1.0
    faults.plan = place("executor 1", "sending its summary", 1, Fault.KILL)
    cluster.epoch(rows_for(random.Random(seed), 3, 8, 20))
    assert faults.struck
    before = picture(cluster)
    cluster.wake_zombies()
    assert picture(cluster) == before
    cluster.epoch([])


def test_an_old_task_commits_before_the_new_run_begins_there() -> None:
    """A zombie may commit to a store that no newer run has used yet; the newer run undoes or discards it."""
    faults = Faults()
    cluster = cluster_with(faults)
    cluster.world.zombie_share = 1.0
    faults.plan = place("executor 1", "a transaction", 1, Fault.KILL)
    woken = 0

    def wake() -> None:
        nonlocal woken
        woken = len(cluster.world.zombies)
        cluster.wake_zombies()

    second = place("driver", "starting run 1", 1, wake)
    first = faults.plan
    faults.plan = lambda effect: first(effect) or second(effect)
    cluster.epoch(rows_for(random.Random(1), 3, 8, 20))
    assert woken
    cluster.epoch([])


@pytest.mark.parametrize("seed", range(4))
def test_a_snapshot_of_a_run_that_never_counts(seed: int) -> None:
    """A task commits to its store, a snapshot of its state is written, and then the run fails: no record names the snapshot."""
    faults = Faults()
    cluster = cluster_with(faults, moody())
    cluster.world.rng.seed(seed)

    def three_rounds() -> None:
        for _ in range(3):
            cluster.background()

    first = place("executor 0", "sending its summary", 1, three_rounds)
    second = place("driver", "delivering", 1, Fault.KILL)
    faults.plan = lambda effect: first(effect) or second(effect)
    for number in range(3, 7):
        cluster.epoch(rows_for(random.Random(seed), number, 8, 20))
    cluster.background()
    cluster.epoch([])
    assert len(faults.struck) == 2
    cluster.witness.rebuild()


def test_a_collection_while_an_epoch_waits_for_its_record() -> None:
    """Files that the next record will name are not garbage, however long that takes."""
    faults = Faults()
    cluster = cluster_with(faults)

    def collect() -> None:
        for now in (1e6, 2e6):
            log, written = cluster.driver.log, cluster.driver.coordinator.migrations.snapshots.pending
            log.collect(spark_committed=Epoch(log.index.last - 1), now=now, pending=written)

    faults.plan = place("driver", "delivering", 1, collect)
    for number in range(3, 6):
        cluster.epoch(rows_for(random.Random(4), number, 8, 20))
        cluster.background()
    assert faults.struck
    cluster.witness.rebuild()
