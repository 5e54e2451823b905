"""Ends a query and its pods: to rest (suspend, or as the program has ended), or to begin again with another spec or Secret (restart).

Always in this order: the query is asked to finish its epoch and stop; when it is quiet, the driver's StatefulSet goes down to
none; when its pod is gone, the executors' pods go. So no executor is taken from a query that runs, and whoever is interrupted
finds a driver that is down. What is on the log is all there is to keep: bins are no reason to keep a pod once no query runs.
"""

from __future__ import annotations

from binshift_operator.decide import drift
from binshift_operator.decide.limits import Limits
from binshift_operator.decide.step import Step
from binshift_operator.model.actions import Action, DeletePod, StopQuery
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ObservedState, Pod, PodState, RunState
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status

AFTER_STOP = (
    ProgressingReason.RESTARTING,
    ProgressingReason.SECRET_LOST,
    ProgressingReason.SUSPENDING,
    ProgressingReason.FINISHING,
)
"""What is awaited only once the query was found quiet."""
NEVER_RAN = (PodState.UNSCHEDULABLE, PodState.IMAGE, PodState.CONFIG, PodState.EVICTED, PodState.NOT_STARTED)
ENDED_BY_ITSELF = "the program has ended by itself"


def outdated_pods(dataflow: Dataflow, observed: ObservedState) -> tuple[Pod, ...]:
    """Live pods that were made for another restart class or Secret."""
    wanted = (dataflow.pod_hash, observed.keys_hash)
    return tuple(p for p in observed.pods if p.deleting_since is None and (p.spec_hash, p.keys_hash) != wanted)


def is_stopped(observed: ObservedState, before: Status, limits: Limits) -> bool:
    """Whether no query runs, or none that could be asked to stop has done so in time."""
    driver, runtime = observed.driver, observed.runtime
    if driver is None or driver.deleting_since is not None:
        return True
    awaiting = before.awaiting
    waited = (
        observed.now - awaiting.since if awaiting is not None and awaiting.reason == ProgressingReason.STOPPING else 0.0
    )
    if runtime is not None:
        return runtime.state is not RunState.RUNNING or waited > limits.stop_seconds_max
    locked_out = observed.keys_hash is not None and driver.keys_hash != observed.keys_hash
    was_quiet = awaiting is not None and awaiting.reason in AFTER_STOP
    return locked_out or was_quiet or driver.state in NEVER_RAN or waited > limits.stop_wait_seconds


def stop_query(observed: ObservedState, before: Status) -> Step:
    """Ask the query to stop, until it says that it does."""
    if observed.runtime is None:
        return Step(
            (), ProgressingReason.STOPPING, f"the driver is to stop, and does not answer: {observed.unreachable}"
        )
    again = before.awaiting is not None and before.awaiting.reason == ProgressingReason.STOPPING
    asked: tuple[Action, ...] = () if observed.runtime.stopping else (StopQuery(again),)
    return Step(asked, ProgressingReason.STOPPING, "the running epoch is finished, then the query stops")


def suspend(observed: ObservedState, before: Status, limits: Limits) -> Step:
    """Bring everything to rest: the query, the driver's pod, the executors' pods."""
    done = Step(
        (),
        SettledReason.SUSPENDED,
        "the stream rests; its state is in the checkpoint",
        settled=not observed.render_error,
    )
    return _shut_down(observed, before, limits, ProgressingReason.SUSPENDING, done)


def shut_down_finished(observed: ObservedState, before: Status, limits: Limits) -> Step:
    """The program has ended by itself, and that is remembered: nothing runs until the spec is edited."""
    done = Step(
        (),
        SettledReason.FINISHED,
        f"{ENDED_BY_ITSELF}; edit the spec, such as restartNonce, to run it again",
        settled=True,
    )
    return _shut_down(observed, before, limits, ProgressingReason.FINISHING, done)


def record_finished(observed: ObservedState) -> Step:
    """The program has just ended by itself: that is written down first, so that no crash has it run again."""
    return Step(drift.plain_children(observed), ProgressingReason.FINISHING, ENDED_BY_ITSELF, finished=True)


def _shut_down(observed: ObservedState, before: Status, limits: Limits, way: ProgressingReason, done: Step) -> Step:
    """Down in order; other children are put in place beside that, and hold up nothing, should they not let themselves."""
    if not is_stopped(observed, before, limits):
        return stop_query(observed, before)
    others = drift.plain_children(observed)
    driver_down = drift.stateful_sets(observed, {Child.DRIVER: 0})
    if driver_down or observed.driver is not None:
        return Step(driver_down + others, way, "the driver's pod ends")
    executors_down = drift.stateful_sets(observed, {Child.EXECUTORS: 0})
    if executors_down or observed.executors or drift.deleting(observed, drift.STATEFUL):
        return Step(executors_down + others, way, "the executors' pods end")
    return Step(others, way, "children are put in place") if others else done


def restart(dataflow: Dataflow, observed: ObservedState, before: Status, limits: Limits) -> Step:
    """Replace the pods that were made for something else; the driver comes back by the usual decision, once none is left."""
    old = outdated_pods(dataflow, observed)
    lost = any(pod.keys_hash != observed.keys_hash for pod in old)
    reason = ProgressingReason.SECRET_LOST if lost else ProgressingReason.RESTARTING
    if not is_stopped(observed, before, limits):
        return _stop_for_templates(observed, before)
    executors = max(dataflow.replicas, before.holding_slots, observed.children[Child.EXECUTORS].replicas)
    put = drift.plain_children(observed) + drift.stateful_sets(observed, {Child.EXECUTORS: executors, Child.DRIVER: 0})
    if observed.driver is not None:
        return Step(put, reason, "the driver's pod ends")
    if put or not _template_in_place(observed):
        return Step(put, reason, "the new templates are put in place")
    why = "its Secret was lost or changed" if lost else "the spec asks for another image, program, conf or resources"
    return Step(tuple(DeletePod(pod.name, pod.uid, why) for pod in old), reason, f"{len(old)} executors are replaced")


def _stop_for_templates(observed: ObservedState, before: Status) -> Step:
    """Ask the query to stop, but only if the API server would take the new templates: else it would stop for nothing."""
    step, tried = stop_query(observed, before), drift.dry_runs(observed)
    if observed.runtime is None or not tried or observed.runtime.stopping:
        return step
    if any(each.child.value in observed.refusals for each in tried):
        message = "the API server refuses the new templates; what runs goes on as it is"
        return Step((*tried, *step.actions), ProgressingReason.SPEC, message)
    return Step((*tried, *step.actions), step.reason, step.message)


def _template_in_place(observed: ObservedState) -> bool:
    """Whether an executor that is made now is made as it should be."""
    seen = observed.children[Child.EXECUTORS]
    in_place = seen.state is ChildState.CURRENT or (seen.state is ChildState.CONTESTED and not seen.retry_due)
    return in_place and seen.is_generation_observed
