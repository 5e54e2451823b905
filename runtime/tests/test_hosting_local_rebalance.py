"""`binshift rebalance --wait` ends with its migration, or reports why that did not settle."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from binshift.errors import MigrationRefused, RunFailed
from binshift.hosting.local.move import await_end


def migration(phase: str) -> Any:
    """One migration with the fields that are needed."""
    ended = datetime(2026, 1, 1, tzinfo=UTC) if phase in ("settled", "cancelled") else None
    facts = {"id": 3, "phase": phase, "ended_at": ended, "bins_total": 4, "bins_moved": 4}
    return SimpleNamespace(**facts, strategy="Fluid", seconds_left=None, reason="superseded by migration 4")


def ended(*phases: str) -> Any:
    """The result of waiting for a migration that goes through these phases."""
    left, now = list(phases), [0.0]

    def pause(seconds: float) -> None:
        now[0] += 1.0

    control: Any = SimpleNamespace(migration=lambda number: migration(left.pop(0)))
    return await_end(control, migration(left.pop(0)), 3.0, lambda: now[0], pause)


def test_it_waits_for_the_end() -> None:
    """One that settles at once is not polled; others are polled until they have."""
    assert ended("settled").phase == "settled"
    assert ended("copying", "flipping", "settled").phase == "settled"


def test_another_end_is_an_error() -> None:
    """The error has the reason; without one, the wait ends after the given time."""
    with pytest.raises(MigrationRefused, match=r"cancelled.*superseded by migration 4"):
        ended("copying", "cancelled")
    with pytest.raises(RunFailed, match="not settled within 3 s"):
        ended(*["copying"] * 9)
