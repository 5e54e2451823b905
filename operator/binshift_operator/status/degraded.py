"""The condition Degraded: the problems of a dataflow that a user must act upon, and the most urgent of them.

Most problems are reported only after they have lasted for a while, because many resolve themselves: a node autoscaler needs minutes, an
image registry may be busy. Durations in messages are whole minutes, so that a message changes at most once a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from binshift_operator.model.messages import format_duration
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.pods import Pod, PodState
from binshift_operator.model.reasons import DegradedReason, ProgressingReason
from binshift_operator.model.situation import Situation, Timeouts
from binshift_operator.model.status import ConditionValue, Explanation, Problem

HEALTHY: Final = "no problems"
EPOCH_STAGES: Final[Mapping[str, tuple[str, str]]] = {
    "plan": ("reads its offsets and plans its route", "the checkpoint's storage"),
    "executors": ("waits for its executors", "the executors' pods"),
    "job": ("runs its Spark job", "the sink, the program's own functions and the executors' logs"),
    "record": ("writes its record", "the checkpoint's storage"),
}
"""For each stage of an epoch: what the epoch does, and what to check if it is stuck there."""
UNKNOWN_STAGE: Final = ("does not end", "the sink and the executors' logs")
RUNS_FAILED_MIN: Final = 3
"""A lost executor fails one or two runs; a full disk or an unavailable sink fails more."""
FAILING_SECONDS_MIN: Final = 10.0
"""A shorter failure is over before anyone can react."""
POD_REASONS: Final = {
    PodState.IMAGE: DegradedReason.IMAGE_PULL,
    PodState.CONFIG: DegradedReason.INVALID_CONFIG,
    PodState.OUT_OF_MEMORY: DegradedReason.OUT_OF_MEMORY,
    PodState.CRASHING: DegradedReason.CRASHING,
    PodState.UNSCHEDULABLE: DegradedReason.UNSCHEDULABLE,
    PodState.EVICTED: DegradedReason.EVICTED,
    PodState.NOT_STARTED: DegradedReason.NOT_STARTED,
}


def degraded(situation: Situation, explanation: Explanation) -> ConditionValue:
    """Degraded: a user must act; the reason is the most urgent problem."""
    observed, timeouts = situation.observed, situation.timeouts
    stuck = stuck_epoch_message(observed.runtime, timeouts.epoch_seconds_max)
    problems: list[Problem] = [
        *([explanation.degraded] if explanation.degraded is not None else []),
        *([(DegradedReason.INVALID_SPEC, observed.render_error)] if observed.render_error else []),
        *([(DegradedReason.TWO_OPERATORS, observed.rivals)] if observed.rivals else []),
        *((DegradedReason.REFUSED, f"{write}: {error}") for write, error in observed.refusals.items()),
        *_missing_pods(situation),
        *_program(observed.runtime),
        *([(DegradedReason.EPOCH_HANGS, stuck)] if stuck else []),
        *(_pod(situation, pod) for pod in observed.pods if _is_lasting(pod, observed.now, timeouts)),
        *_kept_by_finalizers(situation),
        *_unreachable(situation),
    ]
    if not problems:
        return ConditionValue(False, "AsExpected", HEALTHY)
    order = list(DegradedReason)
    reason, message = min(problems, key=lambda each: order.index(each[0]))
    return ConditionValue(True, reason.value, message)


def stuck_epoch_message(runtime: ObservedRuntime | None, epoch_seconds_max: float) -> str:
    """The message about an epoch that keeps failing or runs for too long; empty if there is none.

    A stream without input has no running epoch, so it is never stuck. The driver measures the epoch's age with its own clock, so the
    clocks of several nodes need not agree.
    """
    epoch = None if runtime is None or runtime.state is not RunState.RUNNING else runtime.running_epoch
    if epoch is None:
        return ""
    if epoch.last_error and epoch.runs > RUNS_FAILED_MIN and epoch.seconds >= FAILING_SECONDS_MIN:
        return f"epoch {epoch.epoch} has failed {epoch.runs - 1} times and is retried; last error: {epoch.last_error}"
    if epoch.seconds <= epoch_seconds_max:
        return ""
    duration = f"{epoch.seconds // 60:.0f} min" if epoch.seconds >= 60 else f"{epoch_seconds_max:g} s"
    run = f", in run {epoch.runs}," if epoch.runs > 1 else ""
    activity, suspect = EPOCH_STAGES.get(epoch.part, UNKNOWN_STAGE)
    return f"epoch {epoch.epoch} has been running for over {duration}{run} and {activity}: check {suspect}, and the driver's log"


def is_answer_expected(driver: Pod, situation: Situation) -> bool:
    """Whether the driver should answer: it is ready, or old enough (if its node is lost, it is not ready)."""
    start, now = situation.timeouts.driver_start_seconds, situation.observed.now
    return driver.ready or (driver.created_at is not None and now - driver.created_at > start)


def _missing_pods(situation: Situation) -> list[Problem]:
    """Pods that cannot be created, for example because of a quota, a policy or a webhook."""
    return [
        (
            DegradedReason.PODS_NOT_CREATED,
            f"{child.value}: {missing.count} pods are not created: {missing.reason or 'see the events of the StatefulSet'}",
        )
        for child, missing in situation.observed.missing_pods.items()
        if situation.observed.now - missing.since > situation.timeouts.pods_wait_seconds
    ]


def _program(runtime: ObservedRuntime | None) -> list[Problem]:
    if runtime is not None and runtime.state is RunState.FENCED:
        return [(DegradedReason.FENCED, runtime.reason or "another run owns the checkpoint")]
    if runtime is not None and runtime.state is RunState.FAILED:
        return [(DegradedReason.PROGRAM_FAILED, runtime.reason or "the program has ended with an error")]
    if runtime is not None and runtime.state is RunState.LOADING and runtime.failures:
        return [(DegradedReason.PROGRAM_FAILED, runtime.reason)]  # it failed, and is restarted
    return []


def _unreachable(situation: Situation) -> list[Problem]:
    driver, waited = situation.observed.driver, situation.awaited_seconds(ProgressingReason.RUNTIME)
    if situation.observed.runtime is not None or driver is None or waited is None:
        return []
    if waited <= situation.timeouts.unreachable_seconds or not is_answer_expected(driver, situation):
        return []
    state = "ready" if driver.ready else "not ready, its node may be lost"
    message = (
        f"The operator has not reached the control API of pod {driver.name} ({state}){format_duration(waited)}: "
        f"{situation.observed.unreachable}. The stream may still be running. Check for a NetworkPolicy that blocks the operator's "
        f"namespace ({situation.observed.operator_namespace}), and for a driver without CPU: kubectl top pod {driver.name}"
    )
    return [(DegradedReason.CONTROL_UNREACHABLE, message)]


def _is_lasting(pod: Pod, now: float, timeouts: Timeouts) -> bool:
    """Whether a live pod has had a problem for long enough to report it."""
    if pod.state is PodState.FINE or pod.deleting_since is not None:
        return False
    match pod.state:
        case PodState.IMAGE:
            seconds = timeouts.pods_wait_seconds
        case PodState.UNSCHEDULABLE | PodState.EVICTED | PodState.NOT_STARTED:
            seconds = timeouts.unplaced_seconds
        case _:
            seconds = 0.0
    return pod.state_since is None or now - pod.state_since >= seconds


def _pod(situation: Situation, pod: Pod) -> Problem:
    reason, since = POD_REASONS[pod.state], pod.state_since
    lasting = "" if since is None else format_duration(situation.observed.now - since)
    if pod.is_driver and reason is DegradedReason.CRASHING and pod.message:
        reason = DegradedReason.PROGRAM_FAILED
    if reason is DegradedReason.UNSCHEDULABLE:
        return reason, _unschedulable(situation, pod, lasting)
    if reason is DegradedReason.NOT_STARTED:
        return reason, (
            f"Pod {pod.name} has a node but has not started{lasting}: {pod.message}. Possible causes: a volume cannot be mounted, an "
            f"init container does not end, or no IP address is left; see kubectl describe pod {pod.name}"
        )
    return reason, f"pod {pod.name}: {pod.message or pod.state.value}"


def _kept_by_finalizers(situation: Situation) -> list[Problem]:
    """Deleted pods that only finalizers of other controllers keep; a StatefulSet creates no replacement meanwhile."""
    problems = []
    for pod in situation.observed.pods:
        deleted = situation.observed.now - (pod.deleting_since or 0.0)
        if not pod.only_finalizers_left or deleted < situation.timeouts.unplaced_seconds:
            continue
        ago = f" {int(deleted) // 60} min ago" if deleted >= 60 else ""
        message = (
            f"Pod {pod.name} was deleted{ago} and cannot be replaced while it has finalizers: {', '.join(pod.finalizers)}. Repair the "
            f"controller that should remove them; if it is gone for good, remove them: kubectl edit pod {pod.name}"
        )
        problems.append((DegradedReason.NOT_DELETED, message))
    return problems


def _unschedulable(situation: Situation, pod: Pod, lasting: str) -> str:
    component, runtime = "driver" if pod.is_driver else "executor", situation.observed.runtime
    requests = situation.dataflow.section(component, "resources", "requests")
    now = f" (now {', '.join(f'{name} {amount}' for name, amount in requests.items())})" if requests else ""
    registered = 0 if runtime is None else len(runtime.registered)
    lower = "spec.replicas" if situation.autoscaling is None else "spec.autoscaling.maxReplicas"
    effect, fewer = f"{registered} of {situation.dataflow.replicas} executors are registered", f"lower {lower}, "
    if pod.is_driver:
        waits = pod == situation.observed.driver
        effect, fewer = "the stream waits for it" if waits else "until then there is no standby driver", ""
    elif pod.slot == situation.dataflow.replicas and situation.before.rollout is not None:
        effect, fewer = "executors are replaced once it is registered", "set executor.maxSurge: 0, "
        if leaving := situation.before.rollout.leaving_nodes:
            effect, fewer = f"executors leave {', '.join(leaving)} once it is registered", "uncordon that node, "
    return (
        f"Pod {pod.name} has had no node{lasting}; {effect}. The scheduler: {pod.message.rstrip('. ')}. "
        f"Add nodes, {fewer}or lower {component}.resources.requests{now}"
    )
