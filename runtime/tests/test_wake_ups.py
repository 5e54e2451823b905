"""When a stream without input is woken: at the earliest time that an operator has reported, and at no other."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from epoch_world import EpochWorld
from test_operators_group_states import KEYS, OPERATOR, OUTPUT, ROWS, STATE

from binshift.engine.dataflow import Dataflow
from binshift.model import Epoch, Worker
from binshift.operators.group_states import GroupStates
from simulator.cluster import SimulatedCluster
from simulator.stateflow import StateFlow


@pytest.fixture
def world() -> EpochWorld:
    """A new query on two workers."""
    return EpochWorld()


def test_the_earliest_due_time_of_all_workers_wakes_the_stream(world: EpochWorld) -> None:
    """The stream is woken at the earliest time that a task has reported, and at none once no bin needs an epoch."""
    world.due = {Worker(0): 900, Worker(1): 400}
    world.epoch(0)
    world.due = {Worker(0): 900}
    world.epoch(1)
    world.due = {}
    world.epoch(2)
    assert world.woken_at == [400, 900, None]


def test_nothing_becomes_due_in_an_epoch_that_only_moves_need(world: EpochWorld) -> None:
    """Where the user has disabled batches without data, such an epoch keeps time and watermark, for the next one too."""
    world.without_input = {1, 2}
    for epoch, world.watermark_ms in enumerate((500, 700, 700, 700, 900)):
        world.epoch(epoch)
    records = [world.log.index.record(Epoch(epoch)) for epoch in range(5)]
    assert [record.watermark_ms for record in records] == [500, 500, 500, 700, 900]
    assert [record.batch_time_ms for record in records] == [0, 0, 0, 3000, 4000]


def test_a_restarted_driver_knows_the_due_time_before_its_first_epoch(world: EpochWorld) -> None:
    """The due time is recorded, so that a stream that stays idle after a restart is woken."""
    world.due = {Worker(1): 400}
    world.epoch(0)
    after = world.restarted()
    no_rounds: Any = None
    Dataflow(after.log, after.coordinator, after.targets, after.loop, no_rounds).resume()
    assert after.woken_at == [400]


def test_a_replay_wakes_the_stream_as_recorded(world: EpochWorld) -> None:
    """In a replay the recorded time counts, whatever the tasks report."""
    world.due = {Worker(1): 400}
    world.epoch(0)
    after = world.restarted()
    after.epoch(0)
    assert after.woken_at == [400]


@dataclass(frozen=True)
class Timeouts(StateFlow):
    """A function with timeouts of processing time: it removes odd totals when they time out."""

    @property
    def operator(self) -> GroupStates:  # type: ignore[override]
        """The operator under test."""
        return OPERATOR


def unused(*tables: Any) -> Any:
    """Stands for the function in the reference, whose results are not compared."""
    return OUTPUT.empty_table(), ROWS.empty_table().select(["key", "add"]).rename_columns(["key", "total"])


@pytest.mark.parametrize("seed", range(8))
def test_each_timeout_ends_in_one_epoch_at_its_time(seed: int) -> None:
    """(I5) An idle stream runs an epoch only when a timeout has passed; moves, kills and new drivers neither repeat nor lose one."""
    chance = random.Random(seed)
    flow = Timeouts(unused, tuple(KEYS.names), ROWS, STATE, OUTPUT)
    cluster = SimulatedCluster(flow, workers=2, deterministic=False, seed=seed)
    due = {key: 10 + chance.randrange(1, 40) for key in range(12)}
    cluster.epoch([{"key": key, "add": 1, "wait": time - 10} for key, time in due.items()], 10)
    ended: dict[int, list[int]] = {}
    for now in range(11, 60):
        if chance.random() < 0.3:
            disturb(cluster, chance)
        wake = cluster.driver.batches.wake_at_ms
        if cluster.driver.batches.woken or (wake is not None and wake <= now):
            timed_out = [row["key"] for row in cluster.epoch((), now)["state"]]
            assert timed_out or not (wake is not None and wake <= now)
            for key in timed_out:
                ended.setdefault(key, []).append(now)
    assert ended == {key: [time + 1] for key, time in due.items()}
    assert cluster.driver.batches.wake_at_ms is None


def disturb(cluster: SimulatedCluster, chance: random.Random) -> None:
    """Restart the driver, kill a worker or move bins, with some background work."""
    match chance.randrange(4):
        case 0:
            cluster.restart_driver()
        case 1:
            cluster.kill(chance.randrange(2))
        case 2:
            cluster.wipe(chance.randrange(2))
        case _:
            cluster.rescale(chance.choice([2, 3, 4]))
    for _ in range(3):
        cluster.background()
