"""Requests under faults: lost responses, dying drivers, running flips, lost workers and ended queries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from target_world import UID, begun, rows, slots, targets, workers

from binshift.engine.epoch_plan import EpochPlan
from binshift.engine.migrations import Migration
from binshift.errors import StorageUnavailable
from binshift.log.records import terms
from binshift.migration import Phase
from binshift.model import Bin, Worker
from binshift.worker.messages import Summary
from simulator import SimulatedCluster, Totals


@pytest.fixture
def cluster() -> SimulatedCluster:
    return begun()


def unavailable(*_: object) -> None:
    raise StorageUnavailable("no response")


def test_a_target_whose_answer_was_lost_is_taken_up(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost response, the same request starts the migration that the first one did not start."""
    put = targets(cluster).put
    with monkeypatch.context() as lost:
        lost.setattr(terms, "check_newest", unavailable)
        with pytest.raises(StorageUnavailable):
            put(UID, 1, slots(0, 1, 2))
    assert put(UID, 1, slots(0, 1, 2)) is not None
    cluster.settle()
    assert workers(cluster) == [0, 1, 2]
    assert put(UID, 1, slots(0, 1, 2)) is None


def test_a_target_from_before_the_first_epoch_is_kept() -> None:
    """A driver that died before there was a route leaves the target to the next one."""
    cluster = SimulatedCluster({"totals": Totals()}, bins=8, workers=2, slots=4)
    targets(cluster).put(UID, 1, slots(0, 1, 2))
    cluster.restart_driver()
    cluster.epoch(rows(1))
    cluster.settle()
    assert workers(cluster) == [0, 1, 2]


@pytest.mark.parametrize("to", [{0: -1}, {-1: 0}, {8: 0}], ids=str)
def test_a_move_that_cannot_be_is_refused(cluster: SimulatedCluster, to: dict[int, int]) -> None:
    """It does not block the next request."""
    migration = cluster.move(to)
    assert migration.phase is Phase.CANCELLED
    assert "there is no" in migration.reason
    cluster.rescale(3)
    cluster.settle()
    assert workers(cluster) == [0, 1, 2]


def test_a_flip_under_way_is_rolled_back_too(cluster: SimulatedCluster) -> None:
    """A step in the route of the running epoch at the time of the rollback moves back with the others."""
    assert cluster.route is not None
    before = cluster.route.owners.tolist()
    migration = cluster.rescale(4, "AllAtOnce")
    coordinator, rollbacks = cluster.driver.coordinator, list[Migration]()
    commit = coordinator.commit

    def ask_and_commit(plan: EpochPlan, summaries: Sequence[Summary]) -> None:
        if len(plan.moves) and not rollbacks:
            rollbacks.append(targets(cluster).cancel(migration.id, rollback=True))
        commit(plan, summaries)

    coordinator.commit = ask_and_commit  # type: ignore[method-assign]
    while not rollbacks:
        cluster.background()
        cluster.epoch(rows(1))
    assert cluster.route.owners.tolist() != before
    cluster.settle()
    assert rollbacks[0].phase is Phase.SETTLED
    assert cluster.route.owners.tolist() == before
    cluster.finish()


def test_who_waits_is_told_when_the_query_ends(cluster: SimulatedCluster) -> None:
    """Nothing moves any more, so a migration ends with its query."""
    migration = cluster.rescale(3)
    with pytest.raises(TimeoutError, match="still"):
        migration.wait(0.01)
    cluster.driver.migrations.running = lambda: False
    assert migration.wait(60) is Phase.CANCELLED
    assert "ended" in migration.reason


def test_a_worker_that_is_back_takes_over_before_it_is_noticed(cluster: SimulatedCluster) -> None:
    """A lost worker with a new executor takes over when the next one is lost, without a background round in between."""
    for worker in (1, 2, 3):
        cluster.away(worker)
    cluster.epoch(rows(4))
    assert workers(cluster) == [0]
    cluster.back(1)
    cluster.away(0)
    cluster.epoch(rows(5))
    assert workers(cluster) == [1]
    cluster.back(0)
    cluster.settle()
    assert workers(cluster) == [0, 1]
    cluster.finish()


def test_a_move_by_hand_does_not_happen_later(cluster: SimulatedCluster) -> None:
    """A worker that no target names gets nothing by itself when it comes: the reason has what to do."""
    migration = targets(cluster).move({Bin(0): Worker(3)})
    targets(cluster).give_up(Worker(3), 60.0)
    cluster.settle()
    assert migration.reason == "worker 3 has no executor after 60 s; request the move again when it has one"


def test_a_worker_that_vanishes_on_its_way_in_is_given_up(cluster: SimulatedCluster) -> None:
    """The migration waits for a missing worker, even one that was warm at its start, and then ends."""
    cluster.rescale(3)
    cluster.settle()
    migration = cluster.rescale(4)
    cluster.background()
    migrations = cluster.driver.migrations
    assert Worker(3) in migrations.destinations()
    migrations.give_up("worker 3 has no executor after 60 s; its bins move when it has one")
    cluster.settle()
    assert migration.ended
    assert "worker 3 has no executor" in migration.reason
