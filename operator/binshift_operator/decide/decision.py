"""The rows of the decision, tried from the top; see the package's docstring."""

from __future__ import annotations

from dataclasses import dataclass, replace

from binshift_operator import phases
from binshift_operator.decide import drift, stopping, workers
from binshift_operator.decide.limits import Limits
from binshift_operator.decide.step import Step
from binshift_operator.model.actions import Action, CreateKeys
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ClaimState, ObservedState, RunState
from binshift_operator.model.reasons import DegradedReason, ProgressingReason, SettledReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status

PATIENCE = 20.0
"""How many times something is looked at while it is awaited twice as long."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, what to say, and when to look again at the latest (seconds; an event may come first)."""

    actions: tuple[Action, ...]
    status: Status
    requeue_after: float

    @property
    def rests(self) -> bool:
        """Whether there is nothing to do, and nothing is awaited."""
        return not self.actions and self.status.awaiting is None


def decide(dataflow: Dataflow, observed: ObservedState, before: Status, limits: Limits) -> Decision:
    """The next actions for a dataflow, in order, and its new status."""
    if dataflow.deleting:
        return Decision((), before, limits.rest_seconds)
    if dataflow.unread:
        step, actions = _invalid(observed), tuple[Action, ...]()
    else:
        step = _step(dataflow, observed, before, limits)
        actions = drift.force_deletions(observed, limits) + step.actions
        actions += drift.retries(observed, actions)
    said = phases.Said(
        reason=step.reason,
        message=step.message,
        is_settled=isinstance(step.reason, SettledReason),
        settled=step.settled,
        settling=step.settling,
        timed_out=step.timed_out,
        degraded=step.degraded,
        stale=bool(stopping.outdated_pods(dataflow, observed))
        and not observed.render_error
        and step.reason is not ProgressingReason.SPEC,
        finished=step.finished,
        waiting=step.waiting,
        moving=step.moving,
    )
    status = phases.status(dataflow, observed, before, said, patience(limits))
    return Decision(actions, status, _pause(step, status, observed.now, limits))


def patience(limits: Limits) -> phases.Patience:
    """What the status has to know of the limits."""
    return phases.Patience(
        limits.fresh_seconds,
        limits.unreachable_seconds,
        limits.driver_start_seconds,
        limits.pods_wait_seconds,
        limits.epoch_seconds_max,
        limits.unplaced_seconds,
    )


def _pause(step: Step, status: Status, now: float, limits: Limits) -> float:
    """Until the next look: the longer something is awaited, the less it is asked for; events wake the operator besides."""
    if isinstance(step.reason, SettledReason):
        return limits.rest_seconds
    waited = 0.0 if status.awaiting is None else now - status.awaiting.since
    return min(max(waited / PATIENCE, limits.busy_seconds), limits.rest_seconds)


def _step(dataflow: Dataflow, observed: ObservedState, before: Status, limits: Limits) -> Step:
    taken = [child for child in Child if observed.children[child].state is ChildState.FOREIGN]
    if taken:
        message = " ".join(_taken(dataflow, child) for child in taken)
        return Step((), ProgressingReason.NAMES, message, degraded=(DegradedReason.NAME_TAKEN, message))
    unusable = _unusable(dataflow, observed)
    finished = before.has_finished(dataflow.generation, dataflow.restart_hash)
    rests = dataflow.suspend or finished
    if unusable is not None and observed.driver is None and not rests:
        return Step(drift.plain_children(observed), ProgressingReason.CHECKPOINT, unusable[1], degraded=unusable)
    if observed.keys_hash is None:
        return _keyless(dataflow, observed)
    if dataflow.suspend:
        return stopping.suspend(observed, before, limits)
    if finished:
        return stopping.shut_down_finished(observed, before, limits)
    if observed.render_error:
        return _invalid(observed)
    runtime, driver = observed.runtime, observed.driver
    stopped = driver is not None and runtime is not None and runtime.state is RunState.STOPPED
    there = driver is not None and driver.deleting_since is None
    ended = there and runtime is not None and runtime.state is RunState.FINISHED
    # It ended for an earlier spec, and was edited since: what is still there is that one's.
    earlier = ended and before.finished_generation != 0
    if stopping.outdated_pods(dataflow, observed) or stopped or earlier:
        return stopping.restart(dataflow, observed, before, limits)
    if ended:
        return stopping.record_finished(observed)
    step = workers.run(dataflow, observed, before, limits)
    return step if step.degraded is not None or unusable is None else replace(step, degraded=unusable)


def _taken(dataflow: Dataflow, child: Child) -> str:
    """What to do about another's object of a child's name; deleting it is the last thing to propose."""
    name = dataflow.key.child(child)
    use = f", or set spec.serviceAccountName: {name} to use yours" if child is Child.SERVICE_ACCOUNT else ""
    return (
        f"There is a {child.kind} named {name} that this dataflow did not make, and it needs the name for its own. Rename the "
        f"dataflow{use}. Do not delete the {child.kind} unless you know that nothing uses it."
    )


def _unusable(dataflow: Dataflow, observed: ObservedState) -> tuple[DegradedReason, str] | None:
    """Why the checkpoint cannot be used."""
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


def _invalid(observed: ObservedState) -> Step:
    """What the spec asks for cannot be: what runs goes on as it is, and nothing new is begun."""
    if observed.runtime is None and observed.driver is not None:
        return Step(
            drift.plain_children(observed),
            ProgressingReason.RUNTIME,
            f"the driver does not answer: {observed.unreachable}",
        )
    message = "the spec has to be put right; what runs goes on as it is"
    return Step(drift.plain_children(observed), ProgressingReason.SPEC, message)


def _keyless(dataflow: Dataflow, observed: ObservedState) -> Step:
    """Without the Secret no template can be rendered; a damaged one is a person's, as nothing is written over a Secret."""
    name = dataflow.key.child(Child.KEYS)
    match observed.children[Child.KEYS].state:
        case ChildState.ABSENT:
            made = (*drift.plain_children(observed), CreateKeys())
            return Step(
                made,
                ProgressingReason.SECRET_LOST if observed.pods else ProgressingReason.CHILDREN,
                f"Secret {name} is created",
            )
        case ChildState.DELETING:
            return Step(
                drift.plain_children(observed),
                ProgressingReason.CHILDREN,
                f"Secret {name} is being deleted, then made anew",
            )
        case _:
            message = f"Secret {name} lacks a key: delete it, and it is made anew"
            return Step((), ProgressingReason.SECRET_LOST, message, degraded=(DegradedReason.SECRET_LOST, message))
