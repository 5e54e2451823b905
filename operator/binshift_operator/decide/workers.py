"""The usual case, a dataflow that runs: how many executors there are, what the runtime is asked for, what is awaited.

The decision itself is `binshift.rescale`'s. Here it is given what is, and what it says is turned into actions on
StatefulSets, whose ordinals are the slots. Three things are added:

- *Who cannot come.* If new executors do not register in time, those that have are used without the others (`targets`). That is
  another target of the same generation of the object, hence the revisions (`observed.REVISIONS`).
- *Who is there already.* On resume, executors are started for all slots that held bins when last seen, wanted or not: the
  first epoch needs them. The runtime then says who holds what, and those beyond the spec are drained like any others.
- *What takes too long, or fails.* See `migrations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from binshift import rescale
from binshift.model import Worker
from binshift_operator.decide import drift, migrations, registration, targets
from binshift_operator.decide.limits import Limits
from binshift_operator.decide.registration import format_slots
from binshift_operator.decide.step import Step
from binshift_operator.decide.targets import DesiredWorkers
from binshift_operator.model.actions import Action, PutTarget
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ObservedRuntime, ObservedState, RunState
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Settling, Status
from binshift_operator.phases.holding import holding_slots


@dataclass(frozen=True, slots=True)
class RescaleStep:
    """What `binshift.rescale` says, in the operator's terms; ``replicas``: how many executors there should be now."""

    replicas: int
    shrink: bool = False
    put: tuple[PutTarget, ...] = ()
    waits_for: ProgressingReason | None = None
    slots: frozenset[int] = frozenset()


def run(dataflow: Dataflow, observed: ObservedState, before: Status, limits: Limits) -> Step:
    """Bring a dataflow that should run to its spec's replicas."""
    runtime = observed.runtime
    if runtime is not None and runtime.state is RunState.FENCED:
        return _fenced(observed, dataflow)
    if runtime is not None and (runtime.state is not RunState.RUNNING or runtime.route_version is None):
        runtime = None
    settling = _settling(dataflow, runtime, before)
    late = migrations.timed_out(dataflow, runtime, before, observed.now)
    desired = targets.desired_workers(dataflow, observed, runtime, before, limits, late)
    step = _rescale_step(dataflow, observed, before, runtime, desired, settling)
    shrink = step.shrink and not late
    seen = observed.children[Child.EXECUTORS]
    actions: tuple[Action, ...] = drift.plain_children(observed)
    if shrink:
        actions += drift.stateful_sets(observed, {Child.DRIVER: 1})
        actions += (drift.apply_action(Child.EXECUTORS, seen, dataflow.replicas, exactly=True),)
    else:
        actions += drift.stateful_sets(observed, {Child.EXECUTORS: step.replicas, Child.DRIVER: 1})
    actions += migrations.cancel(dataflow, runtime, before) if late else step.put
    reason, message = _reason(dataflow, observed, step, desired, bool(actions), late)
    actions += () if runtime is None else drift.disruption_budget(observed, len(desired.absent))
    return Step(
        actions,
        reason,
        message,
        settled=reason is SettledReason.SETTLED,
        settling=settling,
        timed_out=late,
        degraded=migrations.revisions_exhausted(dataflow)
        if desired.exhausted
        else migrations.degraded(dataflow, runtime, late),
        waiting=desired.waiting,
        moving=migrations.moving_since(runtime, before),
    )


def _fenced(observed: ObservedState, dataflow: Dataflow) -> Step:
    replicas = max(dataflow.replicas, observed.children[Child.EXECUTORS].replicas)
    actions = drift.plain_children(observed) + drift.stateful_sets(
        observed, {Child.EXECUTORS: replicas, Child.DRIVER: 1}
    )
    return Step(actions, SettledReason.FENCED, "another run owns the checkpoint")


def _settling(dataflow: Dataflow, runtime: ObservedRuntime | None, before: Status) -> Settling | None:
    """Since which epoch our target has been settled; None while it is not, or nothing is known."""
    if runtime is None or runtime.target is None or not runtime.target.settled:
        return None
    if runtime.target.owner != dataflow.key.uid:
        return None  # an earlier dataflow's, whose generations say nothing of ours
    last = before.settling
    if last is not None and last.generation == runtime.target.generation and last.epoch <= runtime.epoch:
        return last
    return Settling(runtime.target.generation, runtime.epoch)


def _rescale_step(
    dataflow: Dataflow,
    observed: ObservedState,
    before: Status,
    runtime: ObservedRuntime | None,
    desired: DesiredWorkers,
    settling: Settling | None,
) -> RescaleStep:
    seen = observed.children[Child.EXECUTORS]
    processes = seen.replicas if seen.state is not ChildState.ABSENT else 0
    actions = rescale.decide(
        rescale.Observed(rescale.lowest(processes), None if runtime is None else _runtime(runtime, settling)),
        rescale.Desired(
            dataflow.key.uid, desired.generation, _workers(desired.workers), _workers(desired.spare), takes_over=True
        ),
    )
    replicas = max(processes, dataflow.replicas, holding_slots(observed.runtime, before) if runtime is None else 0)
    step = RescaleStep(replicas)
    for action in actions:
        match action:
            case rescale.StartWorkers(workers):
                step = RescaleStep(
                    max(replicas, 1 + max(workers)), waits_for=ProgressingReason.CHILDREN, slots=frozenset(workers)
                )
            case rescale.StopWorkers(workers):
                step = RescaleStep(
                    dataflow.replicas, shrink=True, waits_for=ProgressingReason.PODS_ENDING, slots=frozenset(workers)
                )
            case rescale.PutTarget(target):
                put = PutTarget(target.generation, tuple(sorted(target.workers)))
                step = RescaleStep(
                    step.replicas, put=(put,), waits_for=ProgressingReason.TARGET, slots=frozenset(target.workers)
                )
            case rescale.Wait(awaiting, workers):
                step = RescaleStep(step.replicas, waits_for=ProgressingReason(awaiting.value), slots=frozenset(workers))
            case _:
                assert_never(action)
    return step


def _runtime(runtime: ObservedRuntime, settling: Settling | None) -> rescale.Runtime:
    target = runtime.target
    return rescale.Runtime(
        None if target is None else rescale.Target(target.owner, target.generation, _workers(target.workers)),
        registered=_workers(runtime.registered),
        holding=_workers(runtime.holding),
        settled=target is not None and target.settled,
        held_epochs=0 if settling is None else runtime.epoch - settling.epoch,
    )


def _workers(slots: frozenset[int]) -> rescale.Workers:
    return frozenset(map(Worker, slots))


def _reason(
    dataflow: Dataflow, observed: ObservedState, step: RescaleStep, desired: DesiredWorkers, acts: bool, late: bool
) -> tuple[ProgressingReason | SettledReason, str]:
    """What is awaited, in order of what comes first."""
    runtime, awaited = observed.runtime, step.waits_for
    if drift.orphaned(observed):
        return (
            ProgressingReason.CHILDREN,
            "pods of a StatefulSet that was deleted are ending; it is made again once they are gone",
        )
    if awaited is ProgressingReason.RUNTIME and runtime is not None and runtime.state is RunState.RUNNING:
        return ProgressingReason.FIRST_EPOCH, "the query runs, and has not committed an epoch yet"
    if awaited is ProgressingReason.RUNTIME:
        return awaited, runtime.reason if runtime is not None else f"the driver does not answer: {observed.unreachable}"
    if (
        runtime is not None
        and (late or awaited is ProgressingReason.MIGRATION)
        and (ended := migrations.ended_reason(runtime, late))
    ):
        return ended
    away = frozenset(range(dataflow.replicas)) - (runtime.registered if runtime is not None else frozenset())
    unused = desired.spare and awaited in (None, ProgressingReason.MIGRATION, ProgressingReason.TARGET)
    still = awaited is None or (
        awaited is ProgressingReason.MIGRATION and runtime is not None and not migrations.is_moving(runtime)
    )
    if unused or awaited is ProgressingReason.REGISTRATION or (still and away):
        return ProgressingReason.REGISTRATION, registration.describe(dataflow, observed, desired.waiting)
    if awaited is not None:
        return awaited, MESSAGES[awaited].format(format_slots(step.slots))
    if any(pod.slot >= dataflow.replicas for pod in observed.executors):
        return ProgressingReason.PODS_ENDING, "pods that hold no bins any more are ending"
    if acts or drift.deleting(observed, Child):
        return ProgressingReason.CHILDREN, "children are put in place"
    return SettledReason.SETTLED, f"{dataflow.replicas} workers share the bins"


MESSAGES = {
    ProgressingReason.CHILDREN: "executors {} are started",
    ProgressingReason.OTHER_OWNER: "the target belongs to another owner",
    ProgressingReason.GENERATION: "the runtime has a target of a newer generation; the spec is read again",
    ProgressingReason.TARGET: "the runtime is asked to share the bins among workers {}",
    ProgressingReason.MIGRATION: "bins are moving",
    ProgressingReason.HOLD: "one more epoch, before workers {} may end",
    ProgressingReason.BINS: "workers {} still hold bins",
    ProgressingReason.PODS_ENDING: "the pods of workers {} end: they hold no bins",
}
"""What is awaited, for people; the braces are the slots it is about."""
