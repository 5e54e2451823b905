"""Migrations that time out, fail or were cancelled: whether to cancel or retry them, and what to report."""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.model.actions import CancelMigration
from binshift_operator.model.autoscaling import Mode
from binshift_operator.model.messages import format_first
from binshift_operator.model.observed import REVISIONS
from binshift_operator.model.observed_runtime import ObservedRuntime
from binshift_operator.model.reasons import DegradedReason, ProgressingReason, SettledReason
from binshift_operator.model.situation import Situation, Timeouts
from binshift_operator.model.specification import Dataflow, OnTimeout
from binshift_operator.model.status import MigrationStatus, Moving, Problem

RETRIES_BEFORE_REPORT = 3
"""Number of retries after which a failing migration is reported."""
ON_REQUEST = frozenset({"cancelled on request", "rolled back on request"})
"""The runtime's reasons for a migration that a user cancelled."""


def is_ours(dataflow: Dataflow, runtime: ObservedRuntime) -> bool:
    """Whether the runtime's target is of this generation of the dataflow."""
    target = runtime.target
    return (
        target is not None
        and target.owner == dataflow.key.uid
        and target.generation // REVISIONS == dataflow.generation
    )


def current(runtime: ObservedRuntime) -> MigrationStatus | None:
    """The newest migration, if it leads to the target; with the target's generation.

    A restarted driver resumes the migration by itself, and no longer reports its generation.
    """
    migration, target = runtime.migration, runtime.target
    if migration is None or target is None:
        return None
    led = migration.generation in (0, target.generation) and runtime.migration_workers == target.workers
    return replace(migration, generation=target.generation) if led else None


def moving_since(situation: Situation) -> Moving | None:
    """Since when bins have been moving towards the runtime's target; the last known value if the runtime does not report it."""
    runtime, last = situation.running, situation.before.moving
    if runtime is None or runtime.target is None:
        return last
    target, migration = runtime.target, current(runtime)
    if last is not None and last.generation == target.generation:
        # While a worker of the target is away, no bins move there: the migration that starts on its return has the whole timeout.
        waits = (migration is None or migration.ended) and not target.workers <= runtime.registered
        return None if target.settled or waits else last
    if migration is None or migration.ended or migration.started_at is None:
        return None
    return Moving(target.generation, migration.started_at)


def timed_out(situation: Situation) -> bool:
    """Whether this generation's migration has timed out, and the target has not settled since."""
    dataflow, runtime = situation.dataflow, situation.running
    if runtime is None:
        return _is_known_late(situation)
    if not is_ours(dataflow, runtime) or runtime.target is None or runtime.target.settled:
        return False
    began = moving_since(situation)
    long = began is not None and situation.observed.now - began.since > dataflow.migration.timeout_seconds
    migration = current(runtime)
    return _is_known_late(situation) or (long and migration is not None and not migration.ended)


def _is_known_late(situation: Situation) -> bool:
    return situation.before.timed_out_generation == situation.dataflow.generation


def cancel(situation: Situation) -> tuple[CancelMigration, ...]:
    """Cancel a migration that has timed out. Migrations that roll back, or move bins off lost workers, continue."""
    migration = None if situation.running is None else current(situation.running)
    if migration is None or migration.ended:
        return ()
    rollback = situation.dataflow.migration.on_timeout is OnTimeout.ROLLBACK
    return (CancelMigration(migration.id, rollback, again=_is_known_late(situation)),)


def should_retry(runtime: ObservedRuntime, now: float, timeouts: Timeouts) -> bool:
    """Whether to request the target again: its migration failed, was not cancelled by a user, and can succeed now."""
    migration, target = runtime.migration, runtime.target
    if migration is None or target is None or target.settled or migration.phase not in ("failed", "cancelled"):
        return False
    if _is_on_request(migration):
        return False
    rested = migration.ended_at is not None and now - migration.ended_at >= timeouts.retry_seconds
    return rested and target.workers <= runtime.registered


def _is_on_request(migration: MigrationStatus) -> bool:
    """Whether a user cancelled the migration; the reason of a failed one may contain any text."""
    return migration.phase == "cancelled" and migration.reason in ON_REQUEST


def is_moving(runtime: ObservedRuntime) -> bool:
    """Whether bins are moving."""
    return runtime.migration is not None and not runtime.migration.ended


def ended_reason(runtime: ObservedRuntime, late: bool) -> tuple[ProgressingReason | SettledReason, str] | None:
    """Reason and message for a target that has not settled although no bins move; None if bins move, or are about to."""
    migration = runtime.migration
    if migration is None or is_moving(runtime):
        return None
    if late:
        message = "the migration timed out; bins stay where they are until the spec is edited"
        return SettledReason.MIGRATION_TIMED_OUT, message
    if migration.phase not in ("failed", "cancelled"):
        return None
    if _is_on_request(migration):
        message = f"migration {migration.id} was {migration.reason}; bins stay where they are"
        return SettledReason.MIGRATION_CANCELLED, message
    away = frozenset() if runtime.target is None else runtime.target.workers - runtime.registered
    once = f", once workers {format_first(away)} are registered" if away else ""
    message = f"migration {migration.id} ended early and is retried{once}: {migration.reason}"
    return ProgressingReason.MIGRATION, message


def revisions_exhausted(dataflow: Dataflow) -> Problem:
    """The problem that a generation has no revisions left, so no other target can be requested."""
    return DegradedReason.MIGRATION_FAILED, (
        f"generation {dataflow.generation} was requested {REVISIONS} times, which is the maximum. Edit the spec to continue"
    )


def degraded(situation: Situation, *, late: bool) -> Problem | None:
    """The problem of this generation's migration, if any."""
    dataflow, runtime = situation.dataflow, situation.running
    if late:
        return DegradedReason.MIGRATION_TIMED_OUT, _timeout_message(dataflow, runtime)
    if runtime is None or runtime.target is None or runtime.target.settled or not is_ours(dataflow, runtime):
        return None
    migration = runtime.migration
    if migration is None or migration.phase not in ("failed", "cancelled"):
        return None
    if _is_on_request(migration):
        message = f"migration {migration.id} was {migration.reason}. Edit the spec to continue"
        return DegradedReason.MIGRATION_CANCELLED, message
    if runtime.target.generation % REVISIONS >= RETRIES_BEFORE_REPORT:
        return DegradedReason.MIGRATION_FAILED, f"migration {migration.id} failed: {migration.reason}"
    return None


def _timeout_message(dataflow: Dataflow, runtime: ObservedRuntime | None) -> str:
    policy = dataflow.migration
    back, moved = policy.on_timeout is OnTimeout.ROLLBACK, "bins that had moved"
    target, shown = (None, None) if runtime is None else (runtime.target, runtime.migration)
    if target is not None and shown is not None and runtime is not None and runtime.migration_workers == target.workers:
        moved = f"{shown.bins_moved or 0} of {shown.bins_total or 0} bins had moved, which"
    auto = dataflow.autoscaling is not None and dataflow.autoscaling.mode is Mode.AUTO
    scaled = ", and so does autoscaling after a while, or with another number" if auto else ""
    pace = policy.latency_target_seconds
    now = "a quarter above the calm latency" if pace is None else f"{pace:g} s"
    return (
        f"Rescaling to {dataflow.replicas} executors was stopped after {policy.timeout_seconds:g} s "
        f"(spec.migration.timeout): {moved} {'are moved back' if back else 'stay where they are'}; the stream continues. "
        f"Any edit of the spec retries{scaled}; raise migration.timeout, or migration.latencyTarget "
        f"(now {now}) to make it faster"
    )
