"""Assembles the status: the runtime's figures, what later decisions need, the conditions, and the phase."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from binshift_operator.model.observed import ObservedRuntime, ObservedState, RunState
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import (
    HISTORY_MAX,
    REASON_CHARACTERS_MAX,
    Awaiting,
    EpochStats,
    MigrationStatus,
    Phase,
    Status,
    truncate,
)
from binshift_operator.model.timeouts import Timeouts
from binshift_operator.status.conditions import conditions
from binshift_operator.status.explanation import Explanation

NUMBERS_SECONDS: Final = 60.0
"""Minimum interval between two updates of the figures alone: every watcher of the resource receives each update."""


def compute_status(
    dataflow: Dataflow, observed: ObservedState, before: Status, explanation: Explanation, timeouts: Timeouts
) -> Status:
    """The new status; the old one if only the figures differ and they are recent."""
    unchanged = _status(dataflow, observed, before, explanation, timeouts, before.epoch_stats)
    numbers = _numbers(observed.runtime, before)
    last, now = before.epoch_stats.committed_at, numbers.committed_at
    recent = last is not None and now is not None and 0.0 <= now - last < NUMBERS_SECONDS
    if unchanged == before and recent:
        return unchanged
    return _status(dataflow, observed, before, explanation, timeouts, numbers)


def count_holding_slots(runtime: ObservedRuntime | None, before: Status) -> int:
    """How many slots hold bins, as far as is known. The first epoch needs the pods of all of them.

    A loading program reports the workers that its log names; otherwise the last known number stands.
    """
    reported = max(runtime.holding, default=-1) + 1 if runtime is not None else 0
    if runtime is not None and runtime.state is RunState.RUNNING and runtime.route_version is not None:
        return reported
    return max(reported, before.holding_slots)


def _numbers(runtime: ObservedRuntime | None, before: Status) -> EpochStats:
    last = before.epoch_stats
    if runtime is None or runtime.epoch < 0:
        return replace(last, latency_p99=None)
    at = last.committed_at if runtime.committed_at is None and runtime.epoch == last.epoch else runtime.committed_at
    return EpochStats(runtime.epoch, at, runtime.latency_p99 if runtime.state is RunState.RUNNING else None)


def _status(
    dataflow: Dataflow,
    observed: ObservedState,
    before: Status,
    explanation: Explanation,
    timeouts: Timeouts,
    numbers: EpochStats,
) -> Status:
    runtime = observed.runtime
    running = runtime if runtime is not None and runtime.state is RunState.RUNNING else None
    migration = _migration(runtime, before)
    finished = _finished(explanation, dataflow, observed, before)
    return Status(
        observed_generation=dataflow.generation,
        settled_generation=dataflow.generation if explanation.realised else before.settled_generation,
        replicas=len(observed.executors),
        ready_replicas=len(running.registered) if running is not None else 0,
        phase=_phase(dataflow, observed, explanation),
        epoch_stats=numbers,
        route_version=before.route_version if runtime is None else runtime.route_version or before.route_version,
        version=before.version if runtime is None else runtime.version,
        awaiting=_awaiting(explanation, before, dataflow, observed.now),
        settled_target=explanation.settled_target
        if running is not None and running.route_version is not None
        else before.settled_target,
        holding_slots=count_holding_slots(runtime, before),
        timed_out_generation=_timed_out(explanation, running, dataflow, before),
        finished_generation=finished[0],
        finished_spec=finished[1],
        migration=migration,
        history=_history(migration, before),
        conditions=conditions(dataflow, observed, before, explanation, migration, timeouts, numbers),
        waiting=explanation.waiting,
        moving=explanation.moving,
    )


def _awaiting(explanation: Explanation, before: Status, dataflow: Dataflow, now: float) -> Awaiting | None:
    """The time restarts with another reason or generation; a stop and a silent driver keep theirs across generations."""
    if explanation.is_settled:
        return None
    last = before.awaiting
    same_reason = last is not None and last.reason == explanation.reason
    same_generation = before.observed_generation == dataflow.generation
    lasting = explanation.reason in (ProgressingReason.STOPPING, ProgressingReason.RUNTIME)
    if same_reason and (same_generation or lasting):
        return last
    return Awaiting(explanation.reason.value, now)


def _timed_out(explanation: Explanation, running: ObservedRuntime | None, dataflow: Dataflow, before: Status) -> int:
    if explanation.timed_out:
        return dataflow.generation
    over = running is not None and running.route_version is not None
    return 0 if over or before.timed_out_generation != dataflow.generation else before.timed_out_generation


def _finished(explanation: Explanation, dataflow: Dataflow, observed: ObservedState, before: Status) -> tuple[int, str]:
    """Generation and spec of a program that has ended by itself; those of an earlier spec are kept until its driver is gone."""
    if explanation.finished:
        return dataflow.generation, dataflow.restart_hash
    same_spec = before.has_finished(dataflow.generation, dataflow.restart_hash)
    known = before.finished_generation, dataflow.restart_hash if same_spec else before.finished_spec
    driver, runtime = observed.driver, observed.runtime
    gone = (
        driver is None
        or driver.deleting_since is not None
        or (runtime is not None and runtime.state is not RunState.FINISHED)
    )
    # Resuming a suspended dataflow runs its program again.
    over = dataflow.suspend or not same_spec
    return (0, "") if over and gone else known


def _migration(runtime: ObservedRuntime | None, before: Status) -> MigrationStatus | None:
    """The newest migration. If a new driver continues one, its generation is that of the target."""
    last, target = before.migration, None if runtime is None else runtime.target
    if runtime is None or runtime.migration is None:
        if last is None or last.ended or target is None or not target.settled:
            return last  # a restarted driver does not report a migration yet; the last one may not be over
        return replace(last, phase="settled", reason="it had ended when the driver restarted")
    migration = runtime.migration
    if migration.phase == "settled" and not migration.bins_total and (last is None or last.ended):
        return last  # nothing had to move, as when a worker without bins is drained
    if target is not None and migration.generation == 0 and runtime.migration_workers == target.workers:
        migration = replace(migration, generation=target.generation)
    return replace(migration, reason=truncate(migration.reason, REASON_CHARACTERS_MAX))


def _history(migration: MigrationStatus | None, before: Status) -> tuple[MigrationStatus, ...]:
    """Ended migrations, newest first."""
    if migration is None or not migration.ended:
        return before.history[:HISTORY_MAX]
    older = [each for each in before.history if (each.id, each.started_at) != (migration.id, migration.started_at)]
    return (migration, *older)[:HISTORY_MAX]


def _phase(dataflow: Dataflow, observed: ObservedState, explanation: Explanation) -> Phase:
    runtime, reason = observed.runtime, explanation.reason
    if dataflow.suspend:
        suspended = reason is SettledReason.SUSPENDED or (bool(dataflow.parse_error) and not observed.pods)
        return Phase.SUSPENDED if suspended else Phase.SUSPENDING
    if reason in (SettledReason.FINISHED, ProgressingReason.FINISHING):
        return Phase.FINISHED
    restarting = (ProgressingReason.STOPPING, ProgressingReason.RESTARTING, ProgressingReason.SECRET_LOST)
    if explanation.outdated or reason in restarting:
        return Phase.RESTARTING
    if runtime is not None and runtime.state is RunState.FINISHED:
        return Phase.FINISHED
    if runtime is not None and runtime.state in (RunState.FAILED, RunState.FENCED):
        return Phase.FAILED
    if observed.driver is None:
        return Phase.PENDING
    if runtime is None or runtime.state is not RunState.RUNNING:
        return Phase.STARTING
    stable = explanation.is_settled or reason in (ProgressingReason.FIRST_EPOCH, ProgressingReason.SPEC)
    return Phase.RUNNING if stable else Phase.RESCALING
