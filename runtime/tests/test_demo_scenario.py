"""The demo's steps begin at their time, one after the other, and start and end the right processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from binshift.errors import InvalidSettings, MigrationRefused
from binshift.migration import Phase
from flights_demo.scenario import CLEARING_SECONDS, Scenario, plan_steps


@dataclass
class _World:
    """A cluster and a query that record their calls."""

    requests: list[str] = field(default_factory=list)
    migration: Any = None

    def start_worker(self, worker: int) -> None:
        self.requests.append(f"start {worker}")

    def stop_worker(self, worker: int) -> None:
        self.requests.append(f"stop {worker}")

    def rescale(self, workers: int) -> Any:
        self.requests.append(f"rescale {workers}")
        self.migration = SimpleNamespace(progress=None, ended=False, phase=Phase.COPYING, reason="", status="copying")
        return self.migration

    def end(self, phase: Phase) -> None:
        self.migration.ended, self.migration.phase, self.migration.status = True, phase, phase.value
        self.migration.progress = SimpleNamespace(bins_total=8)


def _scenario(world: _World, workers: list[int], seconds: float = 30.0) -> Scenario:
    messages: list[str] = []
    return Scenario(workers[0], world, world, plan_steps(workers, seconds), messages.append)  # type: ignore[arg-type]


def test_growing_starts_processes_and_rescales() -> None:
    """At its time a step starts the new processes and requests the rescale at once, and only once."""
    world = _World()
    scenario = _scenario(world, [2, 4, 3])
    scenario.advance(9.9)
    assert world.requests == []
    scenario.advance(10.0)
    scenario.advance(10.1)
    assert world.requests == ["start 2", "start 3", "rescale 4"]
    assert scenario.wanted == 4
    assert scenario.running == {0, 1, 2, 3}


def test_shrinking_ends_processes_after_it_settled() -> None:
    """A step that shrinks asks first; the highest slots' processes are ended a while after it has settled, not before."""
    world = _World()
    scenario = _scenario(world, [3, 1])
    scenario.advance(15.0)
    scenario.advance(15.1)
    assert world.requests == ["rescale 1"]
    world.end(Phase.SETTLED)
    scenario.advance(17.0)
    scenario.advance(17.0 + CLEARING_SECONDS - 0.1)
    assert world.requests == ["rescale 1"]
    scenario.advance(17.0 + CLEARING_SECONDS)
    assert world.requests == ["rescale 1", "stop 1", "stop 2"]
    assert scenario.running == {0}
    assert scenario.ended
    assert scenario.steps[0].span == (15.0, 17.0)
    assert scenario.steps[0].bins == 8


def test_scene_waits_for_the_one_before() -> None:
    """A step whose time has come waits until the one before has settled."""
    world = _World()
    scenario = _scenario(world, [2, 4, 3])
    scenario.advance(10.0)
    scenario.advance(25.0)
    assert world.requests[-1] == "rescale 4"
    world.end(Phase.SETTLED)
    scenario.advance(26.0)
    scenario.advance(26.1)
    scenario.advance(26.2)
    assert world.requests[-1] == "rescale 3"
    assert scenario.current is scenario.steps[1]


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.CANCELLED])
def test_failed_migration_is_an_error(phase: Phase) -> None:
    """A migration that does not settle ends the demo with an error that names it."""
    world = _World()
    scenario = _scenario(world, [1, 2])
    scenario.advance(15.0)
    world.end(phase)
    with pytest.raises(MigrationRefused, match=f"1 → 2 workers: {phase.value}"):
        scenario.advance(16.0)


@pytest.mark.parametrize("workers", [[], [0, 1], [2, 2]])
def test_senseless_numbers_of_workers_are_refused(workers: list[int]) -> None:
    """No worker at all, or a change to the same number, is rejected with the numbers."""
    with pytest.raises(InvalidSettings, match=r"workers \["):
        plan_steps(workers, 30.0)


def test_one_number_is_no_scene() -> None:
    """A demo without a change in workers is over at once, as far as the scenario goes."""
    assert _scenario(_World(), [2]).ended
