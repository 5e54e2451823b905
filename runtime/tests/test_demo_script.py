"""The demo's scenes begin on time, one after the other, and start and stop the right processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from binshift.demo.script import CLEARING_SECONDS, Script, scenes
from binshift.errors import InvalidSettings, MigrationRefused
from binshift.migration import Phase


@dataclass
class _World:
    """A cluster and a query that record their calls."""

    asked: list[str] = field(default_factory=list)
    migration: Any = None

    def start_worker(self, worker: int) -> None:
        self.asked.append(f"start {worker}")

    def stop_worker(self, worker: int) -> None:
        self.asked.append(f"stop {worker}")

    def rescale(self, workers: int) -> Any:
        self.asked.append(f"rescale {workers}")
        self.migration = SimpleNamespace(progress=None, ended=False, phase=Phase.COPYING, reason="", status="copying")
        return self.migration

    def end(self, phase: Phase) -> None:
        self.migration.ended, self.migration.phase, self.migration.status = True, phase, phase.value
        self.migration.progress = SimpleNamespace(bins_total=8)


def _script(world: _World, workers: list[int], seconds: float = 30.0) -> Script:
    output: list[str] = []
    return Script(workers[0], world, world, scenes(workers, seconds), output.append)  # type: ignore[arg-type]


def test_growing_starts_processes_and_asks() -> None:
    """At its time a scene starts the new processes and requests the rescale at once, and only once."""
    world = _World()
    script = _script(world, [2, 4, 3])
    script.advance(9.9)
    assert world.asked == []
    script.advance(10.0)
    script.advance(10.1)
    assert world.asked == ["start 2", "start 3", "rescale 4"]
    assert script.wanted == 4
    assert script.running == {0, 1, 2, 3}


def test_shrinking_ends_processes_after_it_settled() -> None:
    """A scene that shrinks requests first; the processes of the highest slots are stopped a while after it has settled."""
    world = _World()
    script = _script(world, [3, 1])
    script.advance(15.0)
    script.advance(15.1)
    assert world.asked == ["rescale 1"]
    world.end(Phase.SETTLED)
    script.advance(17.0)
    script.advance(17.0 + CLEARING_SECONDS - 0.1)
    assert world.asked == ["rescale 1"]
    script.advance(17.0 + CLEARING_SECONDS)
    assert world.asked == ["rescale 1", "stop 1", "stop 2"]
    assert script.running == {0}
    assert script.ended
    assert script.scenes[0].span == (15.0, 17.0)
    assert script.scenes[0].bins == 8


def test_scene_waits_for_the_one_before() -> None:
    """A scene whose time has come waits until the previous one has settled."""
    world = _World()
    script = _script(world, [2, 4, 3])
    script.advance(10.0)
    script.advance(25.0)
    assert world.asked[-1] == "rescale 4"
    world.end(Phase.SETTLED)
    script.advance(26.0)
    script.advance(26.1)
    script.advance(26.2)
    assert world.asked[-1] == "rescale 3"
    assert script.current is script.scenes[1]


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.CANCELLED])
def test_failed_migration_is_an_error(phase: Phase) -> None:
    """A migration that does not settle ends the demo with an error that names it."""
    world = _World()
    script = _script(world, [1, 2])
    script.advance(15.0)
    world.end(phase)
    with pytest.raises(MigrationRefused, match=f"1 → 2 workers: {phase.value}"):
        script.advance(16.0)


@pytest.mark.parametrize("workers", [[], [0, 1], [2, 2]])
def test_senseless_numbers_of_workers_are_refused(workers: list[int]) -> None:
    """No worker at all, or a change to the same number, is rejected with the numbers."""
    with pytest.raises(InvalidSettings, match=r"workers \["):
        scenes(workers, 30.0)


def test_one_number_is_no_scene() -> None:
    """The script of a demo without a change in workers is over at once."""
    assert _script(_World(), [2]).ended
