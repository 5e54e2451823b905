"""Migrations that take too long, fail or were cancelled: whether to cancel, to ask again, or to tell a person."""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.decide.limits import Limits
from binshift_operator.model.actions import CancelMigration
from binshift_operator.model.reasons import Trouble
from binshift_operator.model.specification import Dataflow, OnTimeout
from binshift_operator.model.status import MigrationShown, Status
from binshift_operator.model.world import REVISIONS, RuntimeSeen

TRIES_BEFORE_TOLD = 3
"""Times a migration is asked for again before a person is told that it fails."""
ON_REQUEST = "on request"
"""What the runtime's reason says of a migration that somebody cancelled."""


def is_ours(dataflow: Dataflow, runtime: RuntimeSeen) -> bool:
    """Whether the runtime's target is one of this generation of the dataflow."""
    target = runtime.target
    return (
        target is not None
        and target.owner == dataflow.key.uid
        and target.generation // REVISIONS == dataflow.generation
    )


def directed(runtime: RuntimeSeen, before: Status) -> MigrationShown | None:
    """The newest migration, if it leads to the target; with the target's generation, and the earliest beginning known.

    A driver that starts anew begins it again by itself, and no longer knows who asked for it, or when.
    """
    migration, target = runtime.migration, runtime.target
    if migration is None or target is None:
        return None
    led = migration.generation in (0, target.generation) and runtime.migration_workers == target.workers
    if not led:
        return None
    last, began = before.migration, migration.started_at
    if last is not None and not last.ended and last.generation == target.generation and last.started_at is not None:
        began = last.started_at if began is None else min(began, last.started_at)
    return replace(migration, generation=target.generation, started_at=began)


def timed_out(dataflow: Dataflow, runtime: RuntimeSeen | None, before: Status, now: float) -> bool:
    """Whether this generation's migration takes, or took, longer than the spec allows, and has not come to its end since."""
    known = before.timed_out_generation == dataflow.generation
    if runtime is None:
        return known
    if not is_ours(dataflow, runtime) or runtime.target is None or runtime.target.settled:
        return False
    migration = directed(runtime, before)
    running = migration is not None and not migration.ended and migration.started_at is not None
    return known or (running and now - _began(migration) > dataflow.migration.timeout_seconds)


def _began(migration: MigrationShown | None) -> float:
    return float("inf") if migration is None or migration.started_at is None else migration.started_at


def cancelled(dataflow: Dataflow, runtime: RuntimeSeen | None, before: Status) -> tuple[CancelMigration, ...]:
    """Cancel what runs of a migration that took too long. What brings bins back, or off lost workers, goes on."""
    migration = None if runtime is None else directed(runtime, before)
    if migration is None or migration.ended:
        return ()
    return (CancelMigration(migration.id, dataflow.migration.on_timeout is OnTimeout.ROLLBACK),)


def again(runtime: RuntimeSeen, now: float, limits: Limits) -> bool:
    """Whether the target should be asked for once more: its migration ended early, by nobody's wish, and can work now."""
    migration, target = runtime.migration, runtime.target
    if migration is None or target is None or target.settled or migration.phase not in ("failed", "cancelled"):
        return False
    if ON_REQUEST in migration.reason or target.generation % REVISIONS == REVISIONS - 1:
        return False
    rested = migration.ended_at is not None and now - migration.ended_at >= limits.retry_seconds
    return rested and target.workers <= runtime.registered


def trouble(dataflow: Dataflow, runtime: RuntimeSeen | None, late: bool) -> tuple[Trouble, str] | None:
    """What a person should know of this generation's migration."""
    if late:
        policy = dataflow.migration
        kept = "what had moved was moved back" if policy.on_timeout is OnTimeout.ROLLBACK else "what had moved stays"
        return Trouble.MIGRATION_TIMED_OUT, (
            f"the migration took longer than {policy.timeout_seconds:g} s and was cancelled; {kept}. Edit the spec to try again"
        )
    if runtime is None or runtime.target is None or runtime.target.settled or not is_ours(dataflow, runtime):
        return None
    migration = runtime.migration
    if migration is None or migration.phase not in ("failed", "cancelled"):
        return None
    if ON_REQUEST in migration.reason:
        return Trouble.MIGRATION_CANCELLED, f"migration {migration.id} was {migration.reason}. Edit the spec to go on"
    if runtime.target.generation % REVISIONS >= TRIES_BEFORE_TOLD:
        return Trouble.MIGRATION_FAILED, f"migration {migration.id} failed: {migration.reason}"
    return None
