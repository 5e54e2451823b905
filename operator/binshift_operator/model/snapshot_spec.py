"""The sections of a dataflow's spec about snapshots: what an empty checkpoint begins with, and periodic snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from binshift_operator.model.quantities import duration

SNAPSHOT_SECONDS_MIN: Final = 60.0
"""Between two periodic snapshots."""


@dataclass(frozen=True, slots=True)
class RestoreFrom:
    """What an empty checkpoint begins with: the location of a snapshot, or the name of one, with its location once that is known."""

    location: str | None = None
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class RestoreProblem:
    """Why the snapshot that an empty checkpoint is to begin with cannot be used; ``lasting``: not only yet."""

    message: str
    lasting: bool


@dataclass(frozen=True, slots=True)
class SnapshotSchedule:
    """Periodic snapshots: the seconds between two, how many are kept, and the place of them if it is not the default."""

    every_seconds: float
    keep: int
    location: str | None = None


def parse_restore_from(given: Mapping[str, Any] | None) -> RestoreFrom | None:
    """The section ``checkpoint.restoreFrom`` of a spec; None without one.

    Raises:
        ValueError: it does not name exactly one source.
    """
    if not given:
        return None
    location, snapshot = given.get("location"), given.get("snapshot")
    if bool(location) == bool(snapshot):
        raise ValueError("checkpoint.restoreFrom needs exactly one of location and snapshot")
    return RestoreFrom(location, snapshot)


def parse_schedule(given: Mapping[str, Any] | None) -> SnapshotSchedule | None:
    """The section ``snapshots`` of a spec; None without one.

    Raises:
        KeyError, ValueError: it lacks a field, or a number is out of bounds.
    """
    if not given:
        return None
    every, keep = duration(given["every"]), int(given["keep"])
    if every < SNAPSHOT_SECONDS_MIN or keep < 1:
        raise ValueError(f"snapshots: every is {given['every']!r} and keep {keep}; they must be at least 1m and 1")
    return SnapshotSchedule(every, keep, given.get("location"))
