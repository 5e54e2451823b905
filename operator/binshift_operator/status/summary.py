"""Assembles the status: the runtime's figures, what later decisions need, the conditions, and the phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from binshift_operator.model.messages import truncate
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.situation import Situation
from binshift_operator.model.snapshot_spec import RestoreFrom
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import (
    HISTORY_MAX,
    REASON_CHARACTERS_MAX,
    Awaiting,
    EpochStats,
    Explanation,
    HotKey,
    MigrationStatus,
    Phase,
    Status,
)
from binshift_operator.status.conditions import conditions
from binshift_operator.status.drivers import driver_status

NUMBERS_SECONDS: Final = 60.0
"""Minimum interval between two updates of the figures alone: every watcher of the resource receives each update."""
SHARE_CHANGE_MIN: Final = 0.1
"""Change of a hot key's share, relative to it, that updates the status."""
ENDED_PHASES: Final[Mapping[RunState | None, Phase]] = {
    RunState.FINISHED: Phase.FINISHED,
    RunState.FAILED: Phase.FAILED,
    RunState.FENCED: Phase.FAILED,
}


def compute_status(situation: Situation, explanation: Explanation) -> Status:
    """The new status; the old one if only the figures differ and they are recent."""
    before = situation.before
    unchanged = _status(situation, explanation, before.epoch_stats)
    numbers = _numbers(situation.observed.runtime, before)
    last, now = before.epoch_stats.committed_at, numbers.committed_at
    recent = last is not None and now is not None and 0.0 <= now - last < NUMBERS_SECONDS
    return unchanged if unchanged == before and recent else _status(situation, explanation, numbers)


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


def _status(situation: Situation, explanation: Explanation, numbers: EpochStats) -> Status:
    dataflow, observed, before = situation.dataflow, situation.observed, situation.before
    runtime, running = observed.runtime, observed.runtime_state is RunState.RUNNING
    migration = _migration(runtime, before)
    finished_generation, finished_spec = _finished(situation, explanation)
    return Status(
        observed_generation=dataflow.generation,
        settled_generation=dataflow.generation if explanation.realised else before.settled_generation,
        replicas=len(observed.executors),
        ready_replicas=len(runtime.registered) if runtime is not None and running else 0,
        phase=_phase(situation, explanation),
        epoch_stats=numbers,
        route_version=before.route_version if runtime is None else runtime.route_version or before.route_version,
        version=before.version if runtime is None else runtime.version,
        awaiting=_awaiting(situation, explanation),
        settled_target=before.settled_target if situation.running is None else explanation.settled_target,
        holding_slots=count_holding_slots(runtime, before),
        timed_out_generation=_timed_out(situation, explanation),
        finished_generation=finished_generation,
        finished_spec=finished_spec,
        migration=migration,
        history=_history(migration, before),
        conditions=conditions(situation, explanation, migration, numbers),
        waiting=explanation.waiting,
        moving=explanation.moving,
        rollout=explanation.rollout,
        autoscaling=situation.autoscaling,
        hot_keys=_hot_keys(situation.running, before),
        restored=before.restored if dataflow.parse_error else _restored(dataflow),
        driver=driver_status(situation),
    )


def _hot_keys(runtime: ObservedRuntime | None, before: Status) -> tuple[HotKey, ...]:
    """The hot keys, as far as is known; the last ones if only their shares differ, by little."""
    if runtime is None:
        return before.hot_keys
    found = tuple(sorted(runtime.hot_keys, key=lambda each: each.name))
    last = {each.name: each for each in before.hot_keys}
    same = last.keys() == {each.name for each in found} and all(_is_about(each, last[each.name]) for each in found)
    return before.hot_keys if same else found


def _is_about(one: HotKey, other: HotKey) -> bool:
    return (
        replace(one, percent=0) == replace(other, percent=0)
        and abs(one.percent - other.percent) < SHARE_CHANGE_MIN * one.percent
    )


def _restored(dataflow: Dataflow) -> RestoreFrom | None:
    source = dataflow.restore_from
    return source if source is not None and source.snapshot and source.location else None


def _awaiting(situation: Situation, explanation: Explanation) -> Awaiting | None:
    """The time restarts with another reason, generation or executor to roll; a stop and a silent driver keep theirs across generations."""
    if explanation.is_settled:
        return None
    last, reason = situation.before.awaiting, explanation.reason
    same_generation = situation.before.observed_generation == situation.dataflow.generation
    lasting = reason in (ProgressingReason.STOPPING, ProgressingReason.RUNTIME)
    same_executor = situation.before.rollout == explanation.rollout
    if last is not None and last.reason == reason and ((same_generation and same_executor) or lasting):
        return last
    return Awaiting(reason.value, situation.observed.now)


def _timed_out(situation: Situation, explanation: Explanation) -> int:
    generation = situation.dataflow.generation
    known = situation.running is None and situation.before.timed_out_generation == generation
    return generation if explanation.timed_out or known else 0


def _finished(situation: Situation, explanation: Explanation) -> tuple[int, str]:
    """Generation and spec of a program that has ended by itself; those of an earlier spec are kept until its driver is gone."""
    dataflow, before, observed = situation.dataflow, situation.before, situation.observed
    if explanation.finished:
        return dataflow.generation, dataflow.restart_hash
    same_spec = situation.has_finished
    gone = not observed.has_live_driver or observed.runtime_state not in (None, RunState.FINISHED)
    # Resuming a suspended dataflow runs its program again.
    if gone and (dataflow.suspend or not same_spec):
        return 0, ""
    return before.finished_generation, dataflow.restart_hash if same_spec else before.finished_spec


def _migration(runtime: ObservedRuntime | None, before: Status) -> MigrationStatus | None:
    """The newest migration. If a new driver continues one, its generation is that of the target."""
    last, target = before.migration, None if runtime is None else runtime.target
    if runtime is None or runtime.migration is None:
        if last is None or last.ended or target is None or not target.settled:
            return last  # a restarted driver does not report a migration yet; the last one is perhaps not over
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


def _phase(situation: Situation, explanation: Explanation) -> Phase:
    observed, reason = situation.observed, explanation.reason
    if situation.suspends:
        suspended = reason is SettledReason.SUSPENDED or (bool(situation.dataflow.parse_error) and not observed.pods)
        return Phase.SUSPENDED if suspended else Phase.SUSPENDING
    if reason in (SettledReason.FINISHED, ProgressingReason.FINISHING):
        return Phase.FINISHED
    restarting = (ProgressingReason.STOPPING, ProgressingReason.RESTARTING, ProgressingReason.SECRET_LOST)
    if explanation.outdated or reason in restarting:
        return Phase.RESTARTING
    if observed.runtime_state in ENDED_PHASES:
        return ENDED_PHASES[observed.runtime_state]
    if observed.driver is None:
        return Phase.PENDING
    if observed.runtime_state is not RunState.RUNNING:
        return Phase.STARTING
    stable = explanation.is_settled or reason in (ProgressingReason.FIRST_EPOCH, ProgressingReason.SPEC)
    return Phase.RUNNING if stable else Phase.RESCALING
