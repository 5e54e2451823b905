"""Edge cases of migrations: before the first epoch, to a worker that dies before its first bin, and over a long time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from binshift.engine.epoch_plan import BatchOffsets, EpochPlan
from binshift.engine.migrations import HISTORY_MAX
from binshift.model import Bin, Epoch, Worker
from simulator import Row, SimulatedCluster, Totals, Tuning


def rows(number: int) -> list[Row]:
    return [{"key": f"k{i}", "value": number, "time": number} for i in range(30)]


def test_a_migration_requested_before_any_input_ends() -> None:
    """If the stream is idle and bins have no owner yet, an epoch without rows assigns them, and then they move."""
    cluster = SimulatedCluster(Totals(), workers=1, slots=3)
    migration = cluster.rescale(3)
    cluster.settle()
    assert migration.status == "settled"
    assert cluster.route is not None
    assert cluster.route.workers == (0, 1, 2)
    cluster.epoch(rows(1))


def test_an_idle_stream_without_a_migration_has_no_epoch() -> None:
    """Without a reason, no epoch is written."""
    cluster = SimulatedCluster(Totals(), workers=1)
    cluster.background()
    assert not cluster.driver.coordinator.needs_epoch()


def test_a_driver_that_starts_before_any_input_reaches_the_target_of_the_one_before() -> None:
    """The target is durable, although the stream is still idle."""
    cluster = SimulatedCluster(Totals(), workers=1, slots=2)
    cluster.rescale(2)
    cluster.restart_driver()
    cluster.settle()
    assert cluster.route is not None
    assert cluster.route.workers == (0, 1)


def test_an_epoch_does_not_wait_for_a_destination_without_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the destination's executor dies after planning, the epoch runs without it, no bins are reassigned, and the move continues."""
    cluster = SimulatedCluster(Totals(), workers=2, slots=3)
    cluster.epoch(rows(0))
    migration = cluster.rescale(3)
    cluster.background()  # worker 2 is warm now
    coordinator = cluster.driver.coordinator
    plan, plans = coordinator.plan, list[EpochPlan]()

    def planned(epoch: Epoch, batch: BatchOffsets, alive: Sequence[Worker]) -> EpochPlan:
        plans.append(plan(epoch, batch, alive))
        cluster.away(2)
        return plans[-1]

    monkeypatch.setattr(coordinator, "plan", planned)
    cluster.epoch(rows(1))
    assert [each.workers for each in plans] == [(0, 1, 2)]
    assert not len(plans[0].moves)
    assert cluster.witness.records[-1].workers == (0, 1)
    assert not migration.ended
    monkeypatch.undo()
    cluster.back(2)
    cluster.settle()
    assert migration.status == "settled"


def test_an_epoch_does_not_wait_for_a_destination_of_its_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the destination's executor dies after its first bins were planned, they stay, and move once it has returned."""
    cluster = SimulatedCluster(Totals(), workers=2, slots=3, tuning=Tuning(take_over=True, lost_worker_seconds=30.0))
    cluster.epoch(rows(0))
    cluster.rescale(3)
    coordinator = cluster.driver.coordinator
    plan, plans = coordinator.plan, list[EpochPlan]()

    def planned(epoch: Epoch, batch: BatchOffsets, alive: Sequence[Worker]) -> EpochPlan:
        plans.append(plan(epoch, batch, alive))
        if len(plans[-1].moves):
            cluster.away(2)
        return plans[-1]

    monkeypatch.setattr(coordinator, "plan", planned)
    number, before = 0, 0.0
    while not any(len(each.moves) for each in plans):
        cluster.background()
        number += 1
        before = cluster.world.clock.now
        cluster.epoch(rows(number))
    assert [each.workers for each in plans[-2:]] == [(0, 1, 2), (0, 1)]
    assert cluster.world.clock.now - before < 1
    assert cluster.witness.records[-1].workers == (0, 1)
    monkeypatch.undo()
    cluster.back(2)
    cluster.settle()
    assert cluster.route is not None
    assert cluster.route.workers == (0, 1, 2)
    cluster.epoch(rows(number + 1))


def test_only_the_newest_migrations_are_remembered() -> None:
    """Each migration keeps its plan, and a query may have many of them; one that has not ended is never dropped."""
    cluster = SimulatedCluster(Totals(), workers=2, bins=4)
    cluster.epoch(rows(0))
    migrations = [cluster.move({0: number % 2}) for number in range(HISTORY_MAX + 20)]
    cluster.settle()
    history = cluster.driver.migrations.history
    assert len(history) <= HISTORY_MAX
    assert [each.id for each in history] == [each.id for each in migrations[-len(history) :]]
    assert migrations[-1].id - migrations[0].id == HISTORY_MAX + 19
    assert cluster.route is not None
    assert cluster.route.owner(Bin(0)) == 1
