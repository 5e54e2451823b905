"""The events of a status change: each `EventRecord` becomes a Kubernetes Event."""

from __future__ import annotations

from dataclasses import dataclass

from binshift_operator.model.autoscaling import Scale
from binshift_operator.model.messages import truncate
from binshift_operator.model.reasons import SettledReason
from binshift_operator.model.status import Condition, ConditionType, HotKey, MigrationStatus, RolloutStatus, Status
from binshift_operator.status.degraded import HEALTHY

SILENT: tuple[str, ...] = (
    SettledReason.SETTLED,
    SettledReason.MIGRATION_TIMED_OUT,
    SettledReason.MIGRATION_CANCELLED,
)
"""Reasons of Progressing without an event of their own: the event Settled, or Degraded's, has the details."""
WITH_OWN_EVENTS = (ConditionType.MIGRATING, ConditionType.SCALING_ACTIVE)
"""Conditions whose changes are reported by other events: of migrations, and of decisions."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event to be recorded; the message of a ``private`` one has users' data, and is not logged."""

    reason: str
    message: str
    warning: bool = False
    private: bool = False


def transitions(before: Status, after: Status) -> tuple[EventRecord, ...]:
    """The events of the change from one status to the next."""
    events: list[EventRecord] = []
    for kind in ConditionType:
        last, now = before.condition(kind), after.condition(kind)
        if now is not None and (last is None or (last.status, last.reason) != (now.status, now.reason)):
            events += _condition(last, now)
    events += _migration(before.migration, after.migration, timed_out=after.timed_out_generation != 0)
    events += _leaving_nodes(before.rollout, after.rollout)
    in_place = after.settled_generation == after.observed_generation
    if before.rollout is not None and after.rollout is None and in_place:
        events.append(EventRecord("ExecutorsRolled", f"{before.rollout.total} executors run the template of the spec"))
    events += _hot_keys(before.hot_keys, after.hot_keys)
    if (scale := after.autoscaling and after.autoscaling.last_scale) and scale != _last_scale(before):
        events.append(EventRecord("Autoscaled", scale.message))
    if after.settled_generation != before.settled_generation:
        events.append(EventRecord("Settled", f"generation {after.settled_generation} is in place"))
    return tuple(events)


def _leaving_nodes(last: RolloutStatus | None, now: RolloutStatus | None) -> list[EventRecord]:
    known = frozenset() if last is None else frozenset(last.leaving_nodes)
    message = "executors leave node {}, which is cordoned or about to be removed"
    nodes = () if now is None else now.leaving_nodes
    return [EventRecord("ExecutorsLeavingNode", message.format(node)) for node in nodes if node not in known]


def _hot_keys(before: tuple[HotKey, ...], after: tuple[HotKey, ...]) -> list[EventRecord]:
    """One for each key that has become hot, and one when none is any more."""
    known = {each.name for each in before}
    gone = [EventRecord("NoHotKey", "no key has so many rows any more")] if before and not after else []
    return gone + [
        EventRecord(
            "HotKey",
            f"key {each.key!r} has {each.percent:g} % of the rows of {each.operator}, in bin {each.bin} on executor {each.worker}: "
            f"unless the operator aggregates, more executors than {each.executors_max} do not help",
            warning=True,
            private=True,
        )
        for each in after
        if each.name not in known
    ]


def _last_scale(status: Status) -> Scale | None:
    return None if status.autoscaling is None else status.autoscaling.last_scale


def _condition(last: Condition | None, now: Condition) -> list[EventRecord]:
    if now.type in WITH_OWN_EVENTS or (last is None and not now.status):
        return []  # a condition that was never true needs none
    if now.type is ConditionType.SCALING_LIMITED:
        return [EventRecord(f"Scaling{now.reason}", now.message, warning=True, private=True)] if now.status else []
    if now.type is ConditionType.DEGRADED:
        return [EventRecord(now.reason, now.message, warning=True) if now.status else EventRecord("Recovered", HEALTHY)]
    if now.type is ConditionType.READY:
        if last is not None and last.status is now.status:
            return []
        return [EventRecord("Ready" if now.status else "NotReady", now.message, warning=not now.status)]
    return [] if now.reason in SILENT else [EventRecord(now.reason, now.message)]


def _migration(last: MigrationStatus | None, now: MigrationStatus | None, timed_out: bool) -> list[EventRecord]:
    if now is None:
        return []
    new = last is None or (last.id, last.started_at) != (now.id, now.started_at)
    if new and not now.ended:
        return [EventRecord("MigrationStarted", f"{now.strategy} migration {now.id} has started")]
    if now.ended and (new or (last is not None and not last.ended)):
        return [_migration_ended(now, timed_out)]
    return []


def _migration_ended(now: MigrationStatus, timed_out: bool) -> EventRecord:
    """A cancelled migration is no warning: either a newer target replaces it, or Degraded has the reason."""
    moved = f": {now.progress}" if now.progress else ""
    took = "" if now.started_at is None or now.ended_at is None else f" in {now.ended_at - now.started_at:.1f} s"
    if now.phase == "settled":
        return EventRecord("MigrationSettled", f"migration {now.id} has ended{took}{moved}")
    timed_out = timed_out and now.phase == "cancelled"
    why = "it took longer than spec.migration.timeout" if timed_out else truncate(now.reason, 400)
    outcome = "was cancelled" if now.phase == "cancelled" else now.phase
    message = f"migration {now.id} {outcome}{moved}; {why}"
    return EventRecord(f"Migration{now.phase.capitalize()}", message, warning=now.phase == "failed")
