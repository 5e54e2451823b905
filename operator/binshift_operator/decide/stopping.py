"""Stops a query and its pods: to suspend the dataflow, after the program has ended, or to restart with another spec or Secret.

The order is always the same: the query finishes its epoch and stops; the driver's StatefulSet is scaled to 0; once the driver's pod is
gone, the executors' pods are deleted. So no executor is taken from a running query, and after an interruption the next decision finds
the driver already down. Bins do not keep pods alive once no query runs: the log has all state.
"""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.decide import drift
from binshift_operator.model.actions import DeletePod, Step, StopQuery
from binshift_operator.model.executor_class import dataflow_hash
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ObservedState
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.pods import Pod, PodState
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.situation import Situation

AFTER_STOP = (
    ProgressingReason.RESTARTING,
    ProgressingReason.SECRET_LOST,
    ProgressingReason.SUSPENDING,
    ProgressingReason.FINISHING,
)
"""Reasons that follow only after the query has stopped."""
NEVER_RAN = (PodState.UNSCHEDULABLE, PodState.IMAGE, PodState.CONFIG, PodState.EVICTED, PodState.NOT_STARTED)
TEMPLATES_REFUSED = "the API server rejects the new pod templates; running pods are left as they are"
ENDED_BY_ITSELF = "the program has ended by itself"


def outdated_pods(situation: Situation) -> tuple[Pod, ...]:
    """Live pods that were made for another spec or Secret: drivers of another dataflow class, executors of any other restart class."""
    keys, restart = situation.observed.keys_hash, situation.dataflow.pod_hash
    dataflow = dataflow_hash(situation.dataflow)
    live = (pod for pod in situation.observed.pods if pod.deleting_since is None)
    return tuple(
        pod
        for pod in live
        if pod.keys_hash != keys or (pod.spec_hash != restart and not (pod.is_driver and pod.dataflow_hash == dataflow))
    )


def needs_restart(situation: Situation) -> bool:
    """Whether an outdated pod is of another dataflow class or Secret; a pod of an older operator has no hash of its dataflow class."""
    wanted = (situation.observed.keys_hash, dataflow_hash(situation.dataflow))
    return any((pod.keys_hash, pod.dataflow_hash) != wanted for pod in outdated_pods(situation))


def is_stopped(situation: Situation) -> bool:
    """Whether no query runs, or the timeout for stopping it has passed."""
    observed, timeouts = situation.observed, situation.timeouts
    driver, runtime = observed.driver, observed.runtime
    if driver is None or driver.deleting_since is not None:
        return True
    waited = situation.awaited_seconds(ProgressingReason.STOPPING) or 0.0
    if runtime is not None:
        return runtime.state is not RunState.RUNNING or waited > timeouts.stop_seconds_max
    locked_out = observed.keys_hash is not None and driver.keys_hash != observed.keys_hash
    had_stopped = situation.awaited_seconds(*AFTER_STOP) is not None
    return locked_out or had_stopped or driver.state in NEVER_RAN or waited > timeouts.stop_wait_seconds


def stop_query(situation: Situation) -> Step:
    """Request a stop, until the driver reports that the query is stopping."""
    runtime = situation.observed.runtime
    if runtime is None:
        return Step(ProgressingReason.STOPPING, f"the query must stop, but {situation.observed.silence}")
    again = situation.awaited_seconds(ProgressingReason.STOPPING) is not None
    actions = () if runtime.stopping else (StopQuery(again),)
    return Step(ProgressingReason.STOPPING, "the query finishes its epoch, then stops", actions=actions)


def suspend(situation: Situation) -> Step:
    """Stop the query, then the driver's pod, then the executors' pods."""
    message = "the stream is suspended; its state is in the checkpoint"
    done = Step(SettledReason.SUSPENDED, message, realised=not situation.observed.render_error)
    return _shut_down(situation, ProgressingReason.SUSPENDING, done)


def shut_down_finished(situation: Situation) -> Step:
    """The same for a program that is recorded as ended; nothing runs until the spec is edited."""
    message = f"{ENDED_BY_ITSELF}; edit the spec, for example restartNonce, to run it again"
    return _shut_down(situation, ProgressingReason.FINISHING, Step(SettledReason.FINISHED, message, realised=True))


def record_finished(observed: ObservedState) -> Step:
    """The program has just ended by itself. This is recorded first, so that a crash of the operator does not run it again."""
    actions = drift.plain_children(observed)
    return Step(ProgressingReason.FINISHING, ENDED_BY_ITSELF, actions=actions, finished=True)


def _shut_down(situation: Situation, reason: ProgressingReason, done: Step) -> Step:
    """Shut down in order. Other children are applied meanwhile; if they cannot be, they do not block the shutdown."""
    if not is_stopped(situation):
        return stop_query(situation)
    observed = situation.observed
    plain = drift.plain_children(observed)
    driver_down = drift.stateful_sets(observed, {Child.DRIVER: 0})
    if driver_down or observed.driver is not None:
        return Step(reason, "the driver's pod is being deleted", actions=driver_down + plain)
    executors_down = drift.stateful_sets(observed, {Child.EXECUTORS: 0})
    if executors_down or observed.executors or drift.deleting(observed, drift.STATEFUL):
        return Step(reason, "the executors' pods are being deleted", actions=executors_down + plain)
    return Step(reason, "the children are being applied", actions=plain) if plain else done


def restart(situation: Situation) -> Step:
    """Replace outdated pods. The driver is recreated by the usual decision, once no outdated pod is left."""
    observed, outdated = situation.observed, outdated_pods(situation)
    lost = any(pod.keys_hash != observed.keys_hash for pod in outdated)
    reason = ProgressingReason.SECRET_LOST if lost else ProgressingReason.RESTARTING
    if not is_stopped(situation):
        return _stop_for_templates(situation)
    known = situation.dataflow.replicas, situation.before.holding_slots, observed.children[Child.EXECUTORS].replicas
    replicas = {Child.EXECUTORS: max(known), Child.DRIVER: 0}
    actions = drift.plain_children(observed) + drift.stateful_sets(observed, replicas)
    if observed.driver is not None:
        return Step(reason, "the driver's pod is being deleted", actions=actions)
    if actions or not is_template_current(observed):
        return Step(reason, "the new pod templates are being applied", actions=actions)
    why = (
        "its Secret was lost or changed" if lost else "the spec has another image, program, configuration or resources"
    )
    deletions = tuple(DeletePod(pod.name, pod.uid, why) for pod in outdated)
    return Step(reason, f"{len(outdated)} executors are being replaced", actions=deletions)


def _stop_for_templates(situation: Situation) -> Step:
    """Stop the query, but only if the API server would accept the new templates; otherwise it would stop for nothing."""
    observed, step = situation.observed, stop_query(situation)
    dry_runs = drift.dry_runs(observed)
    if observed.runtime is None or not dry_runs or observed.runtime.stopping:
        return step
    step = replace(step, actions=(*dry_runs, *step.actions))
    if any(each.child.value in observed.refusals for each in dry_runs):
        return replace(step, reason=ProgressingReason.SPEC, message=TEMPLATES_REFUSED)
    return step


def is_template_current(observed: ObservedState) -> bool:
    """Whether an executor that is created now gets the current template."""
    executors = observed.children[Child.EXECUTORS]
    contested = executors.state is ChildState.CONTESTED and not executors.retry_due
    return (executors.state is ChildState.CURRENT or contested) and executors.is_generation_observed
