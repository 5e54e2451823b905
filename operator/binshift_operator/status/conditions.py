"""The conditions of a dataflow, except Degraded (`degraded`).

A condition's time changes only with its status, so it shows since when the status holds; reason and message follow the observed state.
"""

from __future__ import annotations

from collections.abc import Mapping

from binshift_operator.model.autoscaling import AutoscalingStatus
from binshift_operator.model.messages import truncate
from binshift_operator.model.observed import ObservedState
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.reasons import DegradedReason, ProgressingReason, ScalingReason, SettledReason
from binshift_operator.model.situation import Situation
from binshift_operator.model.status import (
    Condition,
    ConditionType,
    ConditionValue,
    EpochStats,
    Explanation,
    MigrationStatus,
    Status,
)
from binshift_operator.status.degraded import degraded, is_answer_expected, stuck_epoch_message

UNKNOWN_VERSION = "an older version"
"""In place of a version that is not reported."""
DRIVER_VERSION = "DriverVersion"
DAY_SECONDS = 86_400


def conditions(
    situation: Situation, explanation: Explanation, migration: MigrationStatus | None, numbers: EpochStats
) -> tuple[Condition, ...]:
    """All conditions; ``numbers``: the figures that messages name."""
    progressing = ConditionValue(not explanation.is_settled, explanation.reason.value, explanation.message)
    values = {
        ConditionType.READY: ready(situation, explanation, numbers),
        ConditionType.PROGRESSING: progressing,
        ConditionType.MIGRATING: migrating(situation, migration),
        ConditionType.DEGRADED: degraded(situation, explanation),
        ConditionType.UPDATE_PENDING: update_pending(situation.observed, situation.before),
        **({} if situation.autoscaling is None else scaling(situation.autoscaling)),
    }
    return tuple(_condition(kind, value, situation) for kind, value in values.items())


def _condition(kind: ConditionType, value: ConditionValue, situation: Situation) -> Condition:
    last = situation.before.condition(kind)
    since = last.since if last is not None and last.status is value.status else situation.observed.now
    message = truncate(value.message)
    return Condition(kind, value.status, value.reason, message, situation.dataflow.generation, since)


def ready(situation: Situation, explanation: Explanation, numbers: EpochStats) -> ConditionValue:
    """Ready: epochs are committed, or would be if there were input."""
    observed, driver = situation.observed, situation.observed.driver
    if situation.suspends:
        return ConditionValue(False, "Suspended", "the stream is suspended")
    if explanation.reason in (SettledReason.FINISHED, ProgressingReason.FINISHING):
        return ConditionValue(False, "Finished", "the program has ended by itself")
    if observed.runtime is not None:
        return _ready_runtime(observed.runtime, situation, numbers)
    if driver is None:
        return ConditionValue(False, "NoDriver", "there is no driver pod yet")
    last, silent = situation.before.condition(ConditionType.READY), situation.awaited_seconds(ProgressingReason.RUNTIME)
    recently = silent is None or silent <= situation.timeouts.fresh_seconds
    if driver.ready and last is not None and last.status and recently:
        return ConditionValue(True, last.reason, last.message)
    reason = "ControlUnreachable" if is_answer_expected(driver, situation) else "Starting"
    return ConditionValue(False, reason, observed.silence)


def _ready_runtime(runtime: ObservedRuntime, situation: Situation, numbers: EpochStats) -> ConditionValue:
    now, timeouts = situation.observed.now, situation.timeouts
    if runtime.state is not RunState.RUNNING:
        state = runtime.state.value
        return ConditionValue(False, state, runtime.reason or f"the program is {state.lower()}")
    stuck = stuck_epoch_message(runtime, timeouts.epoch_seconds_max)
    fresh = runtime.committed_at is not None and now - runtime.committed_at <= timeouts.fresh_seconds
    if fresh and not stuck:
        return ConditionValue(True, "EpochCommitted", f"Epochs are committed; {_newest_epoch(numbers, now)}")
    away = runtime.holding - runtime.registered
    if away:
        workers = ", ".join(map(str, sorted(away)[:8]))
        return ConditionValue(False, "WorkersAway", f"epoch {runtime.epoch + 1} waits for workers {workers}")
    if not runtime.registered:
        return ConditionValue(False, "NoWorkers", "no worker is registered with Spark")
    if stuck:
        return ConditionValue(False, DegradedReason.EPOCH_HANGS.value, stuck)
    if runtime.running_epoch is not None:
        return ConditionValue(True, "EpochRunning", f"epoch {runtime.running_epoch.epoch} is running")
    if runtime.epoch < 0:
        return ConditionValue(True, "Idle", "the query is running and has had no input yet")
    holding = len(runtime.holding)
    executors = "executor that holds state is" if holding == 1 else f"{holding} executors that hold state are"
    return ConditionValue(True, "Idle", f"No new input; {_newest_epoch(numbers, now)}. The {executors} registered")


def _newest_epoch(numbers: EpochStats, now: float) -> str:
    if numbers.committed_at is None:
        return f"the newest is {numbers.epoch}"
    minutes, seconds = divmod(int(numbers.committed_at) % DAY_SECONDS, 60)
    days = int(now - numbers.committed_at) // DAY_SECONDS
    ago = f", {days} day{'s' * (days > 1)} ago" if days >= 1 else ""
    return f"the newest is {numbers.epoch}, committed at {minutes // 60:02}:{minutes % 60:02}:{seconds:02}Z{ago}"


def migrating(situation: Situation, migration: MigrationStatus | None) -> ConditionValue:
    """Migrating: bins are moving."""
    if migration is None or migration.ended or situation.suspends:
        return ConditionValue(False, "Idle", "no bins are moving")
    if situation.observed.runtime_state is not RunState.RUNNING:
        return ConditionValue(None, "NotRunning", "bins were moving when the driver last answered")
    progress = migration.progress
    message = f"{migration.strategy} migration is {migration.phase}{f', {progress}' if progress else ''}"
    return ConditionValue(True, migration.phase.capitalize(), message)


def scaling(found: AutoscalingStatus) -> Mapping[ConditionType, ConditionValue]:
    """ScalingActive: the number of executors follows the load. ScalingLimited: there are fewer than it needs."""
    active, limited = not found.reason.is_inactive, found.limited or ScalingReason.WITHIN_RANGE
    why = "there are as many executors as the load needs" if found.limited is None else found.message
    return {
        ConditionType.SCALING_ACTIVE: ConditionValue(active, found.reason.value, found.message),
        ConditionType.SCALING_LIMITED: ConditionValue(found.limited is not None, limited.value, why),
    }


def update_pending(observed: ObservedState, before: Status) -> ConditionValue:
    """UpdatePending: driver, pods and operator are not of one version of binshift.

    Only a report. A pod keeps the template it was created from, so after an upgrade of the operator a replaced pod may run next to pods of
    an older template; and the driver's version is that of the user's image, which only the user can rebuild.
    """
    operator = observed.operator_version
    driver = _driver_version(observed, before)
    pods = {pod.operator_version for pod in observed.pods if pod.deleting_since is None}
    if driver != operator:
        message = (
            f"the operator runs binshift {operator}, the driver {driver or UNKNOWN_VERSION}: "
            f"rebuild the image from the spark image of {operator}"
        )
        return ConditionValue(True, DRIVER_VERSION, message)
    if pods - {operator}:
        versions = ", ".join(sorted(each or UNKNOWN_VERSION for each in pods))
        message = f"the operator runs binshift {operator}, the pod templates are of {versions}: raise restartNonce when convenient"
        return ConditionValue(True, "PodVersions", message)
    return ConditionValue(False, "OneVersion", f"operator, driver and pods run binshift {operator}")


def _driver_version(observed: ObservedState, before: Status) -> str:
    """The version that the driver reports or, while it does not answer, last reported; empty for one too old to report any."""
    if observed.runtime is not None:
        return observed.runtime.version
    last = before.condition(ConditionType.UPDATE_PENDING)
    unreported = last is not None and last.reason == DRIVER_VERSION
    return before.version if before.version or unreported else observed.operator_version
