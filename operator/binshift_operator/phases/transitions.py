"""What changed between two statuses, as things to tell: each becomes a Kubernetes Event."""

from __future__ import annotations

from dataclasses import dataclass

from binshift_operator.model.reasons import SettledReason
from binshift_operator.model.status import Condition, ConditionType, MigrationStatus, Status, shortened


@dataclass(frozen=True, slots=True)
class Told:
    """One thing to tell; ``warning``: a person should look."""

    reason: str
    message: str
    warning: bool = False


def transitions(before: Status, after: Status) -> tuple[Told, ...]:
    """What to tell of the way from one status to the next."""
    told: list[Told] = []
    for kind in ConditionType:
        last, now = before.condition(kind), after.condition(kind)
        if now is not None and (last is None or (last.status, last.reason) != (now.status, now.reason)):
            told += _of_condition(last, now)
    told += _of_migration(before.migration, after.migration, late=after.timed_out_generation != 0)
    if after.settled_generation != before.settled_generation:
        told.append(Told("Settled", f"generation {after.settled_generation} is in place"))
    return tuple(told)


def _of_condition(last: Condition | None, now: Condition) -> list[Told]:
    if now.type is ConditionType.MIGRATING or (last is None and not now.status):
        return []  # migrations speak for themselves, and what never was needs no telling
    if now.type is ConditionType.DEGRADED:
        return [
            Told(now.reason, now.message, warning=True) if now.status else Told("Recovered", "nothing needs a person")
        ]
    if now.type is ConditionType.READY:
        changed = last is None or last.status is not now.status
        return [Told("Ready" if now.status else "NotReady", now.message, warning=not now.status)] if changed else []
    # That everything is in place is told with its generation, and that a migration was given up by Degraded.
    silent = (SettledReason.SETTLED, SettledReason.MIGRATION_TIMED_OUT, SettledReason.MIGRATION_CANCELLED)
    return [] if now.reason in silent else [Told(now.reason, now.message)]


def _of_migration(last: MigrationStatus | None, now: MigrationStatus | None, late: bool) -> list[Told]:
    if now is None:
        return []
    new = last is None or (last.id, last.started_at) != (now.id, now.started_at)
    if new and not now.ended:
        return [Told("MigrationStarted", f"{now.strategy} migration {now.id} has begun")]
    if now.ended and (new or (last is not None and not last.ended)):
        return [_ended(now, late)]
    return []


def _ended(now: MigrationStatus, late: bool) -> Told:
    """One that was cancelled is no warning: either a newer target is under way, or Degraded says why."""
    moved = "" if now.bins_total is None else f": {now.bins_moved or 0} of {now.bins_total} bins moved"
    took = "" if now.started_at is None or now.ended_at is None else f" in {now.ended_at - now.started_at:.1f} s"
    if now.phase == "settled":
        return Told("MigrationSettled", f"migration {now.id} is done{took}{moved}")
    timed_out = late and now.phase == "cancelled"
    why = "it took longer than spec.migration.timeout" if timed_out else shortened(now.reason, 400)
    what = f"migration {now.id} {'was cancelled' if now.phase == 'cancelled' else now.phase}{moved}; {why}"
    return Told(f"Migration{now.phase.capitalize()}", what, warning=now.phase == "failed")
