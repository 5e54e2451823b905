"""Stops a query and its pods: to suspend the dataflow, after the program has ended, or to restart with another spec or Secret.

The order is always the same: the query finishes its epoch and stops; the driver's StatefulSet is scaled to 0; once the driver's pod is
gone, the executors' pods are deleted. So no executor is taken from a running query, and after an interruption the next decision finds
the driver already down. Bins do not keep pods alive once no query runs: the log has all state.
"""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.decide import drift
from binshift_operator.decide.step import Step
from binshift_operator.model.actions import DeletePod, StopQuery
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ObservedState, Pod, PodState, RunState
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status
from binshift_operator.model.timeouts import Timeouts

AFTER_STOP = (
    ProgressingReason.RESTARTING,
    ProgressingReason.SECRET_LOST,
    ProgressingReason.SUSPENDING,
    ProgressingReason.FINISHING,
)
"""Reasons that follow only after the query has stopped."""
NEVER_RAN = (PodState.UNSCHEDULABLE, PodState.IMAGE, PodState.CONFIG, PodState.EVICTED, PodState.NOT_STARTED)
ENDED_BY_ITSELF = "the program has ended by itself"


def outdated_pods(dataflow: Dataflow, observed: ObservedState) -> tuple[Pod, ...]:
    """Live pods that were made for another restart hash or Secret."""
    current = (dataflow.pod_hash, observed.keys_hash)
    return tuple(p for p in observed.pods if p.deleting_since is None and (p.spec_hash, p.keys_hash) != current)


def is_stopped(observed: ObservedState, before: Status, timeouts: Timeouts) -> bool:
    """Whether no query runs, or the timeout for stopping it has passed."""
    driver, runtime = observed.driver, observed.runtime
    if driver is None or driver.deleting_since is not None:
        return True
    awaiting = before.awaiting
    stopping = awaiting is not None and awaiting.reason == ProgressingReason.STOPPING
    waited = observed.now - awaiting.since if awaiting is not None and stopping else 0.0
    if runtime is not None:
        return runtime.state is not RunState.RUNNING or waited > timeouts.stop_seconds_max
    locked_out = observed.keys_hash is not None and driver.keys_hash != observed.keys_hash
    had_stopped = awaiting is not None and awaiting.reason in AFTER_STOP
    return locked_out or had_stopped or driver.state in NEVER_RAN or waited > timeouts.stop_wait_seconds


def stop_query(observed: ObservedState, before: Status) -> Step:
    """Request a stop, until the driver reports that the query is stopping."""
    if observed.runtime is None:
        message = f"the query must stop, but the driver does not answer: {observed.unreachable}"
        return Step(ProgressingReason.STOPPING, message)
    again = before.awaiting is not None and before.awaiting.reason == ProgressingReason.STOPPING
    actions = () if observed.runtime.stopping else (StopQuery(again),)
    return Step(ProgressingReason.STOPPING, "the query finishes its epoch, then stops", actions=actions)


def suspend(observed: ObservedState, before: Status, timeouts: Timeouts) -> Step:
    """Stop the query, then the driver's pod, then the executors' pods."""
    message = "the stream is suspended; its state is in the checkpoint"
    done = Step(SettledReason.SUSPENDED, message, realised=not observed.render_error)
    return _shut_down(observed, before, timeouts, ProgressingReason.SUSPENDING, done)


def shut_down_finished(observed: ObservedState, before: Status, timeouts: Timeouts) -> Step:
    """The same for a program that is recorded as ended; nothing runs until the spec is edited."""
    message = f"{ENDED_BY_ITSELF}; edit the spec, for example restartNonce, to run it again"
    done = Step(SettledReason.FINISHED, message, realised=True)
    return _shut_down(observed, before, timeouts, ProgressingReason.FINISHING, done)


def record_finished(observed: ObservedState) -> Step:
    """The program has just ended by itself. This is recorded first, so that a crash of the operator does not run it again."""
    actions = drift.plain_children(observed)
    return Step(ProgressingReason.FINISHING, ENDED_BY_ITSELF, actions=actions, finished=True)


def _shut_down(
    observed: ObservedState, before: Status, timeouts: Timeouts, reason: ProgressingReason, done: Step
) -> Step:
    """Shut down in order. Other children are applied meanwhile; if they cannot be, they do not block the shutdown."""
    if not is_stopped(observed, before, timeouts):
        return stop_query(observed, before)
    plain = drift.plain_children(observed)
    driver_down = drift.stateful_sets(observed, {Child.DRIVER: 0})
    if driver_down or observed.driver is not None:
        return Step(reason, "the driver's pod is being deleted", actions=driver_down + plain)
    executors_down = drift.stateful_sets(observed, {Child.EXECUTORS: 0})
    if executors_down or observed.executors or drift.deleting(observed, drift.STATEFUL):
        return Step(reason, "the executors' pods are being deleted", actions=executors_down + plain)
    return Step(reason, "the children are being applied", actions=plain) if plain else done


def restart(dataflow: Dataflow, observed: ObservedState, before: Status, timeouts: Timeouts) -> Step:
    """Replace outdated pods. The driver is recreated by the usual decision, once no outdated pod is left."""
    outdated = outdated_pods(dataflow, observed)
    lost = any(pod.keys_hash != observed.keys_hash for pod in outdated)
    reason = ProgressingReason.SECRET_LOST if lost else ProgressingReason.RESTARTING
    if not is_stopped(observed, before, timeouts):
        return _stop_for_templates(observed, before)
    executors = max(dataflow.replicas, before.holding_slots, observed.children[Child.EXECUTORS].replicas)
    replicas = {Child.EXECUTORS: executors, Child.DRIVER: 0}
    actions = drift.plain_children(observed) + drift.stateful_sets(observed, replicas)
    if observed.driver is not None:
        return Step(reason, "the driver's pod is being deleted", actions=actions)
    if actions or not _is_template_current(observed):
        return Step(reason, "the new pod templates are being applied", actions=actions)
    why = (
        "its Secret was lost or changed" if lost else "the spec has another image, program, configuration or resources"
    )
    deletions = tuple(DeletePod(pod.name, pod.uid, why) for pod in outdated)
    return Step(reason, f"{len(outdated)} executors are being replaced", actions=deletions)


def _stop_for_templates(observed: ObservedState, before: Status) -> Step:
    """Stop the query, but only if the API server would accept the new templates; otherwise it would stop for nothing."""
    step, dry_runs = stop_query(observed, before), drift.dry_runs(observed)
    if observed.runtime is None or not dry_runs or observed.runtime.stopping:
        return step
    step = replace(step, actions=(*dry_runs, *step.actions))
    if any(each.child.value in observed.refusals for each in dry_runs):
        message = "the API server rejects the new pod templates; running pods are left as they are"
        return replace(step, reason=ProgressingReason.SPEC, message=message)
    return step


def _is_template_current(observed: ObservedState) -> bool:
    """Whether an executor that is created now gets the current template."""
    executors = observed.children[Child.EXECUTORS]
    contested = executors.state is ChildState.CONTESTED and not executors.retry_due
    return (executors.state is ChildState.CURRENT or contested) and executors.is_generation_observed
