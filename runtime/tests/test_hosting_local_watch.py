"""`binshift migrations --watch`: its output, its order, and its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from binshift.control import models
from binshift.errors import MigrationRefused
from binshift.hosting.local.directory import DesiredScale, ScaleStatus
from binshift.hosting.local.show import watch
from binshift.rescale import LOCAL_OWNER

SCALE = DesiredScale(generation=2, count=4)


def migration(number: int, phase: str) -> Any:
    """One migration with the fields that are needed."""
    ended = "2026-01-01" if phase in ("settled", "cancelled") else None
    return SimpleNamespace(id=number, phase=phase, generation=number, ended_at=ended, reason="")


def dataflow(moving: Any, generation: int, *, settled: bool) -> Any:
    """The dataflow while a migration is the newest."""
    target = SimpleNamespace(owner=LOCAL_OWNER, generation=generation, settled=settled)
    return SimpleNamespace(state=models.State.RUNNING, reason="", target=target, migration=moving)


def watched(*states: tuple[ScaleStatus, Any]) -> list[Any]:
    """The output for each state in turn; the last state must end it."""
    shown: list[Any] = []
    left = list(states)
    directory = SimpleNamespace(desired_scale=SCALE, scale_status=left[0][0])

    def pause(_: float) -> None:
        left.pop(0)
        directory.scale_status = left[0][0]

    watch(directory, SimpleNamespace(dataflow=lambda: left[0][1]), shown.append, pause)  # type: ignore[arg-type]
    assert len(left) == 1
    return shown


def test_what_is_awaited_then_what_moves() -> None:
    """A migration that had already ended is not shown; then each change of the new one is shown once."""
    old, warming, moved = migration(1, "settled"), migration(2, "warming"), migration(2, "settled")
    waits = ScaleStatus(2, "Registration", (2, 3))
    shown = watched(
        (waits, dataflow(old, 1, settled=True)),
        (waits, dataflow(old, 1, settled=True)),
        (ScaleStatus(2, "Migration"), dataflow(warming, 2, settled=False)),
        (ScaleStatus(2, "Migration"), dataflow(warming, 2, settled=False)),
        (ScaleStatus(2), dataflow(moved, 2, settled=True)),
    )
    assert shown == ["4 workers: waiting for workers 2, 3 to register with Spark", warming, moved]


def test_the_end_is_the_migration() -> None:
    """Whatever is awaited after it, such as processes that end, the last thing shown is the migration that has settled."""
    moved = migration(2, "settled")
    shown = watched(
        (ScaleStatus(2, "Migration"), dataflow(migration(2, "flipping"), 2, settled=False)),
        (ScaleStatus(2, "Hold", (3,)), dataflow(moved, 2, settled=False)),
        (ScaleStatus(2), dataflow(moved, 2, settled=True)),
    )
    assert shown[1:] == [moved, "4 workers: waiting one more epoch, before workers 3 end", moved]


def test_nothing_to_wait_for() -> None:
    """It shows the newest migration and ends."""
    done = migration(2, "settled")
    assert watched((ScaleStatus(2), dataflow(done, 2, settled=True))) == [done]


def test_a_migration_that_was_cancelled_ends_it() -> None:
    """The error has the reason."""
    with pytest.raises(MigrationRefused, match="migration 2 is cancelled"):
        watched((ScaleStatus(2), dataflow(migration(2, "cancelled"), 2, settled=False)))
