"""If one worker cannot do background work, the others continue, it is named with its error, and migrations to it end."""

from __future__ import annotations

from typing import Any

import pytest
from control_simulated import World

from binshift.engine.worker_backoff import REST_SECONDS_MAX, WorkerBackoff
from binshift.errors import TaskFailed
from binshift.model import Worker
from simulator import Row, SimulatedCluster, Totals
from simulator.clock import ManualClock

KINDS = ["its disk is gone", "killed"]
"""An error that a task reports, and one that ends its process, and so its job."""


def rows() -> list[Row]:
    return [{"key": f"k{n}", "value": 1, "time": 0} for n in range(20)]


def busy(cluster: SimulatedCluster, epochs: int) -> None:
    for _ in range(epochs):
        cluster.epoch(rows())
        cluster.background()


@pytest.mark.parametrize("kind", KINDS)
def test_the_others_go_on(kind: str) -> None:
    """With a failing spare worker, records name snapshots as before, and bins move between the others."""
    cluster = SimulatedCluster(Totals(), workers=2, slots=5)
    cluster.world.machines[Worker(4)].broken = kind
    busy(cluster, 12)
    assert sum(bool(record.snapshots) for record in cluster.witness.records[-8:]) >= 4
    migration = cluster.rescale(4)
    busy(cluster, 20)
    assert migration.status == "settled"
    assert cluster.driver.migrations.backoff.known.keys() == {Worker(4)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_migration_to_it_ends(kind: str) -> None:
    """The reason has the worker and its error; once it is repaired the same request succeeds, and nothing is left over."""
    cluster = SimulatedCluster(Totals(), workers=2, slots=4)
    busy(cluster, 3)
    cluster.world.machines[Worker(3)].broken = kind
    migration = cluster.rescale(4)
    busy(cluster, 40)
    assert migration.status == "failed"
    assert "copying step 0 to worker 3 failed" in migration.reason
    assert kind in migration.reason
    cluster.world.machines[Worker(3)].broken = ""
    again = cluster.rescale(4)
    cluster.settle()  # although it is paused: it is tried as soon as bins must move there
    assert again.status == "settled"
    assert not cluster.driver.migrations.backoff.known
    busy(cluster, 3)
    assert cluster.leftovers() == {}


def test_it_is_named_with_its_error() -> None:
    """The list of workers and the metrics have its number of failures and the reason; the others have none."""
    world = World()
    world.cluster.world.machines[Worker(3)].broken = "its disk is gone"
    world.query._coordinator.migrations.copies.forget_worker(Worker(3), "")
    for _ in range(4):
        world.epoch()
    world.cluster.rescale(4)
    for _ in range(4):
        world.epoch()
    loads = {load.worker: load for load in world.service.workers()}
    assert loads[3].background_failures > 1
    assert loads[3].background_error == "InvalidSettings: its disk is gone"
    assert (loads[0].background_failures, loads[0].background_error) == (0, "")
    measured = world.service.observed().background_failures
    assert measured == {0: 0, 1: 0, 2: 0, 3: loads[3].background_failures}


def test_the_rests_grow() -> None:
    """There is no pause after one failure, then pauses grow; one successful round resets them."""
    clock = ManualClock()
    backoff, rests = WorkerBackoff(clock), []
    for _ in range(10):
        backoff.record_failure(Worker(1), "no disk")
        began = clock.now
        while backoff.resting():
            clock.sleep(0.5)
        rests.append(clock.now - began)
    assert rests[:5] == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert max(rests) == REST_SECONDS_MAX
    assert backoff.known[Worker(1)].failures == 10
    backoff.record_success([Worker(1)])
    assert not backoff.known


@pytest.mark.parametrize("broken", [0, 6, 12])
def test_the_one_to_blame_is_found_by_halves(broken: int) -> None:
    """If a job fails without a report, few more jobs fail before one worker is alone in its own job, and stays there."""
    backoff, failed = WorkerBackoff(ManualClock()), 0
    everybody = [Worker(w) for w in range(13)]
    while [Worker(broken)] not in backoff.jobs(everybody):
        for job in backoff.jobs(everybody):
            if broken in job:
                failed += 1
                backoff.suspect(job)
            else:
                backoff.record_success(job)
    assert failed <= 4
    backoff.record_failure(Worker(broken), "its process died")
    backoff.record_success([w for w in everybody if w != broken])
    assert backoff.jobs(everybody) == [[w for w in everybody if w != broken], [Worker(broken)]]


def test_a_worker_that_left_is_forgotten_in_the_end() -> None:
    """Not while it is paused: it may return and fail as before."""
    clock = ManualClock()
    backoff = WorkerBackoff(clock)
    for _ in range(4):
        backoff.record_failure(Worker(1), "no disk")
    backoff.forget_absent([Worker(0)])
    assert Worker(1) in backoff.known
    clock.sleep(REST_SECONDS_MAX)
    backoff.forget_absent([Worker(0)])
    assert not backoff.known


def test_a_rehearsal_that_goes_well_clears_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's failures are cleared: it takes part in epochs, and is no longer reported."""
    cluster = SimulatedCluster(Totals(), workers=2, slots=3)
    busy(cluster, 3)
    migrations, outcomes = cluster.driver.migrations, [TaskFailed("no memory"), None]

    def warm(executors: object) -> None:
        if (error := outcomes.pop(0)) is not None:
            raise error

    background: Any = cluster.driver.dataflow.background
    monkeypatch.setattr(background.ports.jobs, "rehearse", warm)
    cluster.rescale(3)
    background._warm_up({Worker(2): None})
    assert migrations.backoff.known.keys() == {Worker(2)}
    background._warm_up({Worker(2): None})
    assert not migrations.backoff.known
    assert Worker(2) in migrations.participants([Worker(0), Worker(1), Worker(2)])


@pytest.mark.parametrize("pre_copy", [True, False])
def test_a_worker_that_rests_is_rehearsed_on_once_bins_shall_move_there(pre_copy: bool) -> None:
    """Another migration used it in vain; the next one does not leave a cold worker paused."""
    cluster = SimulatedCluster(Totals(), workers=2, slots=3)
    busy(cluster, 3)
    backoff = cluster.driver.migrations.backoff
    for _ in range(4):
        backoff.record_failure(Worker(2), "no memory")
    assert backoff.resting() == {Worker(2)}
    cluster.rescale(3, pre_copy=pre_copy)
    assert Worker(2) in cluster.driver.migrations.cold()
    assert not backoff.resting()
