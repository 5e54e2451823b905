"""When a stream without input is woken: at the earliest time that an operator has reported, and at no other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from epoch_world import EpochWorld
from test_operators_group_states import KEYS, OPERATOR, OUTPUT, ROWS, STATE

from binshift.engine.dataflow import Dataflow
from binshift.model import Epoch, Worker
from binshift.operators.group_states import GroupStates
from binshift.operators.processor.contract import Firing, InputGroup, States
from binshift.operators.processor.operator import StatefulProcessing, TimeMode
from binshift.operators.processor.timers import Timers
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


class Registers:
    """A processor that registers the timer that a row requests, and returns keys whose timers fire."""

    def __init__(self, states: States | None = None) -> None:
        self.states = states

    def open(self, states: States) -> Registers:
        """See `UserProcessor`."""
        return Registers(states)

    def inputs(self, group: InputGroup) -> Iterator[pa.RecordBatch]:
        """See `Calls`."""
        times = group.rows.column("c0").to_pylist()
        for at, start in enumerate(group.starts.tolist()[:-1]):
            self._timers(at).register(times[start])
        return iter(())

    def expired(self, firing: Firing) -> Iterator[pa.RecordBatch]:
        """See `Calls`."""
        for at, time_ms in zip(firing.places, firing.times_ms, strict=True):
            self._timers(at).delete(time_ms)
        yield pa.RecordBatch.from_arrays([firing.keys.column(0).take(pa.array(firing.places))], ["key"])

    def close(self) -> None:
        """See `Calls`."""

    def _timers(self, at: int) -> Timers:
        assert self.states is not None
        assert self.states.timers is not None
        self.states.turn.at = at
        return self.states.timers


TIMER_KEYS, TIMER_ROWS = pa.schema([("k0", pa.int64())]), pa.schema([("c0", pa.int64())])
TIMER_OUTPUT = pa.schema([("key", pa.int64())])


@dataclass(frozen=True)
class RegisteredTimers(StateFlow):
    """A processor with timers of processing time."""

    @property
    def operator(self) -> StatefulProcessing:  # type: ignore[override]
        """The operator under test."""
        return StatefulProcessing(Registers(), TIMER_KEYS, TIMER_ROWS, TIMER_OUTPUT, (), TimeMode.PROCESSING)


def unused(*tables: Any) -> Any:
    """Stands for the function in the reference, whose results are not compared."""
    return OUTPUT.empty_table(), ROWS.empty_table().select(["key", "add"]).rename_columns(["key", "total"])


@pytest.mark.parametrize("seed", range(8))
def test_each_timer_fires_in_one_epoch_at_its_time(seed: int) -> None:
    """(I5) The same for timers, which fire at their own time."""
    chance = random.Random(seed)
    flow = RegisteredTimers(unused, ("k0",), pa.schema([*TIMER_KEYS, *TIMER_ROWS]), STATE, TIMER_OUTPUT)
    cluster = SimulatedCluster(flow, workers=2, deterministic=False, seed=seed)
    due = {key: 10 + chance.randrange(1, 40) for key in range(12)}
    cluster.epoch([{"k0": key, "c0": time} for key, time in due.items()], 10)
    assert ended(cluster, chance) == {key: [time] for key, time in due.items()}


@pytest.mark.parametrize("seed", range(8))
def test_each_timeout_ends_in_one_epoch_at_its_time(seed: int) -> None:
    """(I5) An idle stream runs an epoch only when a timeout has passed; moves, kills and new drivers neither repeat nor lose one."""
    chance = random.Random(seed)
    flow = Timeouts(unused, tuple(KEYS.names), ROWS, STATE, OUTPUT)
    cluster = SimulatedCluster(flow, workers=2, deterministic=False, seed=seed)
    due = {key: 10 + chance.randrange(1, 40) for key in range(12)}
    cluster.epoch([{"key": key, "add": 1, "wait": time - 10} for key, time in due.items()], 10)
    assert ended(cluster, chance) == {key: [time + 1] for key, time in due.items()}


def ended(cluster: SimulatedCluster, chance: random.Random) -> dict[int, list[int]]:
    """Run an idle stream, with disturbances, until nothing is due; returns when each key was in the output."""
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
    assert cluster.driver.batches.wake_at_ms is None
    return ended


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
