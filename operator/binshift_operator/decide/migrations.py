"""Migrations that take too long, fail or were cancelled: whether to cancel, to ask again, or to tell a person."""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.decide.limits import Limits
from binshift_operator.decide.registration import listed
from binshift_operator.model.actions import CancelMigration
from binshift_operator.model.reasons import AtRest, Awaited, Trouble
from binshift_operator.model.specification import Dataflow, OnTimeout
from binshift_operator.model.status import MigrationShown, Moving, Status
from binshift_operator.model.world import REVISIONS, RuntimeSeen

TRIES_BEFORE_TOLD = 3
"""Times a migration is asked for again before a person is told that it fails."""
ON_REQUEST = frozenset({"cancelled on request", "rolled back on request"})
"""The runtime's reasons of a migration that somebody cancelled."""


def is_ours(dataflow: Dataflow, runtime: RuntimeSeen) -> bool:
    """Whether the runtime's target is one of this generation of the dataflow."""
    target = runtime.target
    return (
        target is not None
        and target.owner == dataflow.key.uid
        and target.generation // REVISIONS == dataflow.generation
    )


def directed(runtime: RuntimeSeen) -> MigrationShown | None:
    """The newest migration, if it leads to the target; with the target's generation.

    A driver that starts anew begins it again by itself, and no longer knows who asked for it.
    """
    migration, target = runtime.migration, runtime.target
    if migration is None or target is None:
        return None
    led = migration.generation in (0, target.generation) and runtime.migration_workers == target.workers
    return replace(migration, generation=target.generation) if led else None


def moving(runtime: RuntimeSeen | None, before: Status) -> Moving | None:
    """Since when bins move towards the runtime's target; what is not known now is as it was."""
    if runtime is None or runtime.target is None:
        return before.moving
    target, last = runtime.target, before.moving
    migration = directed(runtime)
    if last is not None and last.generation == target.generation:
        # Without a worker of the target nothing leads there: what begins once it is back has its time for itself.
        waits = (migration is None or migration.ended) and not target.workers <= runtime.registered
        return None if target.settled or waits else last
    if migration is None or migration.ended or migration.started_at is None:
        return None
    return Moving(target.generation, migration.started_at)


def timed_out(dataflow: Dataflow, runtime: RuntimeSeen | None, before: Status, now: float) -> bool:
    """Whether this generation's migration takes, or took, longer than the spec allows, and has not come to its end since."""
    known = before.timed_out_generation == dataflow.generation
    if runtime is None:
        return known
    if not is_ours(dataflow, runtime) or runtime.target is None or runtime.target.settled:
        return False
    migration, began = directed(runtime), moving(runtime, before)
    long = began is not None and now - began.since > dataflow.migration.timeout_seconds
    return known or (long and migration is not None and not migration.ended)


def cancelled(dataflow: Dataflow, runtime: RuntimeSeen | None, before: Status) -> tuple[CancelMigration, ...]:
    """Cancel what runs of a migration that took too long. What brings bins back, or off lost workers, goes on."""
    migration = None if runtime is None else directed(runtime)
    if migration is None or migration.ended:
        return ()
    again = before.timed_out_generation == dataflow.generation
    return (CancelMigration(migration.id, dataflow.migration.on_timeout is OnTimeout.ROLLBACK, again),)


def again(runtime: RuntimeSeen, now: float, limits: Limits) -> bool:
    """Whether the target should be asked for once more: its migration ended early, by nobody's wish, and can work now."""
    migration, target = runtime.migration, runtime.target
    if migration is None or target is None or target.settled or migration.phase not in ("failed", "cancelled"):
        return False
    if _on_request(migration):
        return False
    rested = migration.ended_at is not None and now - migration.ended_at >= limits.retry_seconds
    return rested and target.workers <= runtime.registered


def _on_request(migration: MigrationShown) -> bool:
    """Whether somebody cancelled it; one that failed may have any words in its reason."""
    return migration.phase == "cancelled" and migration.reason in ON_REQUEST


def moves(runtime: RuntimeSeen) -> bool:
    """Whether bins are moving."""
    return runtime.migration is not None and not runtime.migration.ended


def ended(runtime: RuntimeSeen, late: bool) -> tuple[Awaited | AtRest, str] | None:
    """What is said of a target that has not settled while no bins move; None if they do, or are about to."""
    migration = runtime.migration
    if migration is None or moves(runtime):
        return None
    if late:
        return (
            AtRest.MIGRATION_TIMED_OUT,
            "the migration took too long; bins stay where they are until the spec is edited",
        )
    if migration.phase not in ("failed", "cancelled"):
        return None
    if _on_request(migration):
        return AtRest.MIGRATION_CANCELLED, f"migration {migration.id} was {migration.reason}; bins stay where they are"
    away = frozenset() if runtime.target is None else runtime.target.workers - runtime.registered
    once = f", once workers {listed(away)} are registered" if away else ""
    return Awaited.MIGRATION, f"migration {migration.id} ended early and is asked for again{once}: {migration.reason}"


def exhausted(dataflow: Dataflow) -> tuple[Trouble, str]:
    """What is said when a generation has no revisions left, so that the runtime cannot be asked for anything else."""
    return Trouble.MIGRATION_FAILED, (
        f"generation {dataflow.generation} was asked for {REVISIONS} times, which is the most. Edit the spec to go on"
    )


def trouble(dataflow: Dataflow, runtime: RuntimeSeen | None, late: bool) -> tuple[Trouble, str] | None:
    """What a person should know of this generation's migration."""
    if late:
        return Trouble.MIGRATION_TIMED_OUT, _of_timeout(dataflow, runtime)
    if runtime is None or runtime.target is None or runtime.target.settled or not is_ours(dataflow, runtime):
        return None
    migration = runtime.migration
    if migration is None or migration.phase not in ("failed", "cancelled"):
        return None
    if _on_request(migration):
        return Trouble.MIGRATION_CANCELLED, f"migration {migration.id} was {migration.reason}. Edit the spec to go on"
    if runtime.target.generation % REVISIONS >= TRIES_BEFORE_TOLD:
        return Trouble.MIGRATION_FAILED, f"migration {migration.id} failed: {migration.reason}"
    return None


def _of_timeout(dataflow: Dataflow, runtime: RuntimeSeen | None) -> str:
    policy = dataflow.migration
    back, moved = policy.on_timeout is OnTimeout.ROLLBACK, "bins that had moved"
    target, shown = (None, None) if runtime is None else (runtime.target, runtime.migration)
    if target is not None and shown is not None and runtime is not None and runtime.migration_workers == target.workers:
        moved = f"{shown.bins_moved or 0} of {shown.bins_total or 0} bins had moved, which"
    return (
        f"Rescaling to {dataflow.replicas} executors was stopped after {policy.timeout_seconds:g} s "
        f"(spec.migration.timeout): {moved} {'are moved back' if back else 'stay where they are'}; the stream runs on. "
        "Any edit of the spec tries again; raise migration.timeout, or migration.latencyTarget "
        f"(now {policy.latency_target_seconds:g} s) to let it go faster"
    )
