"""The rows of the decision; see the package's docstring."""

from __future__ import annotations

from dataclasses import dataclass, replace

from binshift_operator.decide import drift, stopping, workers
from binshift_operator.decide.step import Step
from binshift_operator.model.actions import Action, CreateKeys
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ClaimState, ObservedState, RunState
from binshift_operator.model.reasons import DegradedReason, ProgressingReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status
from binshift_operator.model.timeouts import Timeouts
from binshift_operator.status import compute_status

POLLS_PER_DOUBLING = 20.0
"""Number of reconciliations while the time that something has been awaited doubles."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The actions, the new status, and the maximum time to the next reconciliation (an event may trigger it earlier)."""

    actions: tuple[Action, ...]
    status: Status
    requeue_after: float

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to do and nothing to wait for."""
        return not self.actions and self.status.awaiting is None


def decide(dataflow: Dataflow, observed: ObservedState, before: Status, timeouts: Timeouts) -> Decision:
    """The next actions for a dataflow, in order, and its new status."""
    if dataflow.deleting:
        return Decision((), before, timeouts.rest_seconds)
    if dataflow.parse_error:
        step, actions = replace(_invalid(observed), actions=()), tuple[Action, ...]()
    else:
        step = _step(dataflow, observed, before, timeouts)
        actions = drift.force_deletions(observed, timeouts) + step.actions
        actions += drift.retries(observed, actions)
    outdated = bool(stopping.outdated_pods(dataflow, observed))
    outdated = outdated and not observed.render_error and step.reason is not ProgressingReason.SPEC
    status = compute_status(dataflow, observed, before, replace(step, outdated=outdated), timeouts)
    return Decision(actions, status, _requeue_after(step, status, observed.now, timeouts))


def _requeue_after(step: Step, status: Status, now: float, timeouts: Timeouts) -> float:
    """The longer something has been awaited, the less often it is polled; events trigger reconciliations besides."""
    if step.is_settled:
        return timeouts.rest_seconds
    waited = 0.0 if status.awaiting is None else now - status.awaiting.since
    return min(max(waited / POLLS_PER_DOUBLING, timeouts.busy_seconds), timeouts.rest_seconds)


def _step(dataflow: Dataflow, observed: ObservedState, before: Status, timeouts: Timeouts) -> Step:
    foreign = [child for child in Child if observed.children[child].state is ChildState.FOREIGN]
    if foreign:
        message = " ".join(_name_taken(dataflow, child) for child in foreign)
        return Step(ProgressingReason.NAMES, message, degraded=(DegradedReason.NAME_TAKEN, message))
    finished = before.has_finished(dataflow.generation, dataflow.restart_hash)
    unusable, no_account = _checkpoint_problem(dataflow, observed), _service_account_problem(observed)
    if observed.driver is None and not (dataflow.suspend or finished):
        blocked = _blocked(observed, unusable, no_account)
        if blocked is not None:
            return blocked
    if observed.keys_hash is None:
        return _without_secret(dataflow, observed)
    if dataflow.suspend:
        return stopping.suspend(observed, before, timeouts)
    if finished:
        return stopping.shut_down_finished(observed, before, timeouts)
    if observed.render_error:
        return _invalid(observed)
    runtime, driver = observed.runtime, observed.driver
    stopped = driver is not None and runtime is not None and runtime.state is RunState.STOPPED
    live = driver is not None and driver.deleting_since is None
    ended = live and runtime is not None and runtime.state is RunState.FINISHED
    # It ended for an earlier spec and was edited since: the remaining pods are those of the earlier spec.
    ended_earlier = ended and before.finished_generation != 0
    if stopping.outdated_pods(dataflow, observed) or stopped or ended_earlier:
        if no_account is not None and live and not stopped:
            return replace(_invalid(observed), degraded=no_account)
        return stopping.restart(dataflow, observed, before, timeouts)
    if ended:
        return stopping.record_finished(observed)
    step = workers.run(dataflow, observed, before, timeouts)
    return replace(step, degraded=step.degraded or unusable or no_account)


def _blocked(
    observed: ObservedState,
    unusable: tuple[DegradedReason, str] | None,
    no_account: tuple[DegradedReason, str] | None,
) -> Step | None:
    """The step of a dataflow that cannot start without its checkpoint or its ServiceAccount; None if it can."""
    if unusable is not None:
        reason, problem = ProgressingReason.CHECKPOINT, unusable
    elif no_account is not None:
        reason, problem = ProgressingReason.SPEC, no_account
    else:
        return None
    return Step(reason, problem[1], actions=drift.plain_children(observed), degraded=problem)


def _name_taken(dataflow: Dataflow, child: Child) -> str:
    """The message about a foreign object with a child's name; deleting that object is the last thing to propose."""
    name = dataflow.key.child(child)
    use = f", or set spec.serviceAccountName: {name} to use yours" if child is Child.SERVICE_ACCOUNT else ""
    return (
        f"There is a {child.kind} named {name} that does not belong to this dataflow, which needs the name for its own. Rename the "
        f"dataflow{use}. Do not delete the {child.kind} unless you know that nothing uses it."
    )


def _checkpoint_problem(dataflow: Dataflow, observed: ObservedState) -> tuple[DegradedReason, str] | None:
    claim = dataflow.checkpoint.claim
    if observed.claim is ClaimState.ABSENT:
        return DegradedReason.CHECKPOINT_NOT_FOUND, f"there is no PersistentVolumeClaim {claim}: create it"
    if observed.claim is ClaimState.NOT_SHARED:
        return DegradedReason.CHECKPOINT_NOT_SHARED, (
            f"PersistentVolumeClaim {claim} is not ReadWriteMany: driver and executors on several nodes all need it"
        )
    if observed.credentials_missing:
        return DegradedReason.CREDENTIALS_MISSING, f"there is no Secret {observed.credentials_missing}: create it"
    return None


def _service_account_problem(observed: ObservedState) -> tuple[DegradedReason, str] | None:
    """The problem that the user's ServiceAccount does not exist: the API server accepts the StatefulSet, even in a dry run, but no pod."""
    if observed.account_missing is None:
        return None
    message = f"there is no ServiceAccount {observed.account_missing}: create it, or correct spec.serviceAccountName"
    return DegradedReason.SERVICE_ACCOUNT_NOT_FOUND, message


def _invalid(observed: ObservedState) -> Step:
    """The spec is invalid: running pods are left as they are, and nothing new is started."""
    actions = drift.plain_children(observed)
    if observed.runtime is None and observed.driver is not None:
        message = f"the driver does not answer: {observed.unreachable}"
        return Step(ProgressingReason.RUNTIME, message, actions=actions)
    message = "the spec is invalid and must be corrected; running pods are left as they are"
    return Step(ProgressingReason.SPEC, message, actions=actions)


def _without_secret(dataflow: Dataflow, observed: ObservedState) -> Step:
    """Without the Secret no pod template can be rendered. A damaged Secret is left to the user, as the operator never overwrites one."""
    name, actions = dataflow.key.child(Child.KEYS), drift.plain_children(observed)
    match observed.children[Child.KEYS].state:
        case ChildState.ABSENT:
            reason = ProgressingReason.SECRET_LOST if observed.pods else ProgressingReason.CHILDREN
            return Step(reason, f"Secret {name} is created", actions=(*actions, CreateKeys()))
        case ChildState.DELETING:
            message = f"Secret {name} is being deleted, and will be recreated"
            return Step(ProgressingReason.CHILDREN, message, actions=actions)
        case _:
            message = f"Secret {name} lacks a key: delete it, and the operator will recreate it"
            return Step(ProgressingReason.SECRET_LOST, message, degraded=(DegradedReason.SECRET_LOST, message))
