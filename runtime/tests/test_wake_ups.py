"""When a stream without input is woken: at the earliest time that an operator has reported, and at no other."""

from __future__ import annotations

from typing import Any

import pytest
from epoch_world import EpochWorld

from binshift.engine.dataflow import Dataflow
from binshift.model import Worker


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
