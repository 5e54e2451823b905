"""The rows of the decision, in the order of the table in the package's docstring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from binshift_operator.decide import drift, rolling, standby, stopping, workers
from binshift_operator.decide.autoscaling import ScalingMemory, autoscale
from binshift_operator.model.actions import Action, CreateKeys, Step
from binshift_operator.model.names import ANNOTATION_PAUSED, Child
from binshift_operator.model.observed import ChildState, ClaimState, ObservedState
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.reasons import DegradedReason, ProgressingReason, SettledReason
from binshift_operator.model.situation import Situation, Timeouts
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Problem, Status
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


def decide(
    dataflow: Dataflow,
    observed: ObservedState,
    before: Status,
    timeouts: Timeouts,
    scaling: ScalingMemory | None = None,
) -> Decision:
    """The next actions for a dataflow, in order, and its new status. ``scaling`` is updated."""
    if dataflow.deleting:
        return Decision((), before, timeouts.rest_seconds)
    situation = autoscale(Situation(dataflow, observed, before, timeouts), scaling or ScalingMemory())
    if dataflow.paused:
        step = _paused(before)
    elif dataflow.parse_error:
        step = replace(_invalid(observed), actions=())
    else:
        step = next(filter(None, (row(situation) for row in ROWS)))
        actions = drift.force_deletions(situation) + step.actions
        step = replace(step, actions=actions + drift.retries(observed, actions))
    waits = step.reason in (ProgressingReason.SPEC, SettledReason.PAUSED)
    outdated = _needs_restart(situation) and not observed.render_error and not waits
    status = compute_status(situation, replace(step, outdated=outdated))
    return Decision(step.actions, status, _requeue_after(step, status, situation))


def _requeue_after(step: Step, status: Status, situation: Situation) -> float:
    """The longer something has been awaited, the less often it is polled; events trigger reconciliations besides."""
    timeouts, scaled = situation.timeouts, situation.autoscaling
    if step.is_settled:
        return timeouts.rest_seconds if scaled is None or scaled.reason.is_inactive else timeouts.load_seconds
    waited = 0.0 if status.awaiting is None else situation.observed.now - status.awaiting.since
    return min(max(waited / POLLS_PER_DOUBLING, timeouts.busy_seconds), timeouts.rest_seconds)


def _paused(before: Status) -> Step:
    """Nothing is changed, and what later decisions need is kept."""
    return Step(
        SettledReason.PAUSED,
        f"annotation {ANNOTATION_PAUSED} is true: the operator changes nothing until it is removed",
        settled_target=before.settled_target,
        timed_out=before.timed_out_generation == before.observed_generation != 0,
        waiting=before.waiting,
        moving=before.moving,
        rollout=before.rollout,
    )


def _name_taken(situation: Situation) -> Step | None:
    """Report foreign objects with the names of children; deleting them is the last thing to propose."""
    messages = []
    for child in Child:
        if situation.observed.children[child].state is ChildState.FOREIGN:
            name = situation.dataflow.key.child(child)
            use = f", or set spec.serviceAccountName: {name} to use yours" if child is Child.SERVICE_ACCOUNT else ""
            messages.append(
                f"There is a {child.kind} named {name} that does not belong to this dataflow, which needs the name for its own. "
                f"Rename the dataflow{use}. Do not delete the {child.kind} unless you know that nothing uses it."
            )
    message = " ".join(messages)
    return Step(ProgressingReason.NAMES, message, degraded=(DegradedReason.NAME_TAKEN, message)) if messages else None


def _blocked(situation: Situation) -> Step | None:
    """Without its checkpoint, its ServiceAccount or its snapshot, a dataflow that does not run yet cannot start."""
    observed = situation.observed
    if situation.dataflow.suspend or situation.has_finished:
        return None
    if observed.driver is not None:
        return _awaits_snapshot(situation) if _never_began(situation) else None
    unusable = _checkpoint_problem(situation)
    problem = unusable or _service_account_problem(observed)
    if problem is None:
        return _awaits_snapshot(situation)
    reason = ProgressingReason.CHECKPOINT if unusable else ProgressingReason.SPEC
    return Step(reason, problem[1], actions=drift.plain_children(observed), degraded=problem)


def _never_began(situation: Situation) -> bool:
    """Whether there was no epoch, and the driver's pod has never run, or is being deleted for that."""
    observed, driver = situation.observed, situation.observed.driver
    if driver is None or observed.runtime is not None or situation.before.epoch_stats.epoch is not None:
        return False
    return driver.state in stopping.NEVER_RAN or observed.children[Child.DRIVER].replicas == 0


def _awaits_snapshot(situation: Situation) -> Step | None:
    """Started without its snapshot, the program would begin with no state: a driver that is yet to start is removed."""
    observed = situation.observed
    problem = observed.restore_problem
    if problem is None:
        return None
    actions = drift.plain_children(observed)
    if observed.children[Child.DRIVER].replicas and situation.before.epoch_stats.epoch is None:
        actions += drift.stateful_sets(observed, {Child.DRIVER: 0})
    return Step(ProgressingReason.SNAPSHOT, problem.message, actions=actions, degraded=_snapshot_problem(observed))


def _snapshot_problem(observed: ObservedState) -> Problem | None:
    problem = observed.restore_problem
    return (DegradedReason.SNAPSHOT_UNUSABLE, problem.message) if problem is not None and problem.lasting else None


def _secret_missing(situation: Situation) -> Step | None:
    """Without the Secret no pod template can be rendered. A damaged Secret is left to the user, as the operator never overwrites one."""
    observed = situation.observed
    if observed.keys_hash is not None:
        return None
    name, actions = situation.dataflow.key.child(Child.KEYS), drift.plain_children(observed)
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


def _suspended(situation: Situation) -> Step | None:
    return stopping.suspend(situation) if situation.dataflow.suspend else None


def _finished(situation: Situation) -> Step | None:
    return stopping.shut_down_finished(situation) if situation.has_finished else None


def _unrenderable(situation: Situation) -> Step | None:
    return _invalid(situation.observed) if situation.observed.render_error else None


def _needs_restart(situation: Situation) -> bool:
    return bool(stopping.outdated_pods(situation)) and not rolling.is_possible(situation)


def _outdated(situation: Situation) -> Step | None:
    """Restart for another spec or Secret, or because the query was stopped or has ended for an earlier spec."""
    observed = situation.observed
    stopped = observed.driver is not None and observed.runtime_state is RunState.STOPPED
    stopped = stopped and not standby.hands_over(situation)
    # It ended for an earlier spec and was edited since: the remaining pods are those of the earlier spec.
    ended_earlier = _has_just_ended(observed) and situation.before.finished_generation != 0
    if not (_needs_restart(situation) or stopped or ended_earlier):
        return None
    missing = _service_account_problem(observed) or _certificate_problem(observed)
    if missing is not None and observed.has_live_driver and not stopped:
        return replace(_invalid(observed), degraded=missing)
    return stopping.restart(situation)


def _ended(situation: Situation) -> Step | None:
    return stopping.record_finished(situation.observed) if _has_just_ended(situation.observed) else None


def _run(situation: Situation) -> Step | None:
    step = standby.with_active_driver(situation, workers.run(situation))
    observed = situation.observed
    problem = _checkpoint_problem(situation) or _service_account_problem(observed) or _snapshot_problem(observed)
    return replace(step, degraded=step.degraded or problem)


ROWS: Final[tuple[Callable[[Situation], Step | None], ...]] = (
    *(_name_taken, _blocked, _secret_missing, _suspended, _finished, _unrenderable, _outdated, _ended, _run),
)
"""The first that does not return None decides; the last one never does."""


def _has_just_ended(observed: ObservedState) -> bool:
    return observed.has_live_driver and observed.runtime_state is RunState.FINISHED


def _checkpoint_problem(situation: Situation) -> Problem | None:
    claim, observed = situation.dataflow.checkpoint.claim, situation.observed
    if observed.claim is ClaimState.ABSENT:
        return (
            DegradedReason.CHECKPOINT_NOT_FOUND,
            f"there is no PersistentVolumeClaim {claim} (checkpoint.claimName): create it",
        )
    if observed.claim is ClaimState.NOT_SHARED:
        return DegradedReason.CHECKPOINT_NOT_SHARED, (
            f"PersistentVolumeClaim {claim} ({observed.claim_kind}) is not ReadWriteMany, and driver and executors on several nodes all "
            "write to it. Create a ReadWriteMany claim of a class such as NFS, CephFS, EFS, Filestore or Azure Files, or use "
            "checkpoint.location: s3://...; checkpoint is fixed, so create another dataflow with it"
        )
    if observed.credentials_missing:
        return (
            DegradedReason.CREDENTIALS_MISSING,
            f"there is no Secret {observed.credentials_missing} (checkpoint.credentialsSecret): create it",
        )
    return _certificate_problem(observed)


def _certificate_problem(observed: ObservedState) -> Problem | None:
    return (DegradedReason.CERTIFICATE_MISSING, observed.certificate_problem) if observed.certificate_problem else None


def _service_account_problem(observed: ObservedState) -> Problem | None:
    """The problem that the user's ServiceAccount does not exist: the API server accepts the StatefulSet, even in a dry run, but no pod."""
    if observed.account_missing is None:
        return None
    message = f"there is no ServiceAccount {observed.account_missing}: create it, or correct spec.serviceAccountName"
    return DegradedReason.SERVICE_ACCOUNT_NOT_FOUND, message


def _invalid(observed: ObservedState) -> Step:
    """The spec is invalid: running pods are left as they are, and nothing new is started."""
    actions = drift.plain_children(observed)
    if observed.runtime is None and observed.driver is not None:
        return Step(ProgressingReason.RUNTIME, observed.silence, actions=actions)
    message = "the spec is invalid and must be corrected; running pods are left as they are"
    return Step(ProgressingReason.SPEC, message, actions=actions)
