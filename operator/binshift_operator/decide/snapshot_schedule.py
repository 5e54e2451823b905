"""Decides which periodic snapshots of a dataflow are made and removed. Pure: the time is an argument.

Slots are the multiples of the interval since 1970, so every process of the operator finds the same ones. The newest slot alone is filled:
after a time without an operator, or with a suspended dataflow, there is one snapshot and not one for each missed slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binshift_operator.model.snapshot_spec import SnapshotSchedule
from binshift_operator.model.snapshots import Snapshot, SnapshotPhase


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """What a schedule requires now.

    Attributes:
        slot: of the snapshot to create, in seconds since 1970; None: none is due.
        remove: snapshots that are no longer kept, the oldest first.
        next_slot: when the next one is due.
    """

    slot: float | None
    remove: tuple[Snapshot, ...]
    next_slot: float


def plan_schedule(schedule: SnapshotSchedule, snapshots: Iterable[Snapshot], now: float) -> SchedulePlan:
    """The plan for the periodic snapshots of one dataflow; none is created while another one is unfinished."""
    present = sorted(
        (each for each in snapshots if not each.deleting), key=lambda each: (each.created_at, each.key.name)
    )
    slot = now // schedule.every_seconds * schedule.every_seconds
    taken = any(not each.status.is_final or each.created_at >= slot for each in present)
    surplus = [
        each
        for phase in (SnapshotPhase.COMPLETE, SnapshotPhase.FAILED)
        for each in _surplus(present, phase, schedule.keep)
    ]
    return SchedulePlan(None if taken else slot, tuple(surplus), slot + schedule.every_seconds)


def _surplus(present: Sequence[Snapshot], phase: SnapshotPhase, keep: int) -> Sequence[Snapshot]:
    found = [each for each in present if each.status.phase is phase]
    return found[: max(0, len(found) - keep)]
