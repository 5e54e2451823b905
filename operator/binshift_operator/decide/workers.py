"""The usual case, a running dataflow: the number of executors, the runtime's target, and what is being waited for.

`binshift.rescale` decides; this module passes it the observed state, and turns its decision into actions on StatefulSets,
whose ordinals are the slots. It adds three things:

- *Executors that do not register.* After a timeout, the target takes the registered ones (`targets`). That is another target
  of the same generation of the object, hence the revisions (`observed.REVISIONS`).
- *Executors that hold bins.* On resume, executors are started for all slots that last held bins, in the spec or not, because the
  first epoch needs them. The runtime then reports what each of them holds, and those beyond the spec are drained as usual.
- *Migrations that time out or fail.* See `migrations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from binshift import rescale
from binshift.model import Worker
from binshift_operator.decide import drift, migrations, registration, targets
from binshift_operator.decide.registration import format_slots
from binshift_operator.decide.step import Step
from binshift_operator.decide.targets import DesiredWorkers
from binshift_operator.model.actions import Action, PutTarget
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ObservedRuntime, ObservedState, RunState
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import SettledTarget, Status
from binshift_operator.model.timeouts import Timeouts
from binshift_operator.status import count_holding_slots


@dataclass(frozen=True, slots=True)
class RescaleStep:
    """The next step of `binshift.rescale`; ``replicas``: the number of executors to run now."""

    replicas: int
    shrink: bool = False
    put: tuple[PutTarget, ...] = ()
    waits_for: ProgressingReason | None = None
    slots: frozenset[int] = frozenset()


def run(dataflow: Dataflow, observed: ObservedState, before: Status, timeouts: Timeouts) -> Step:
    """Bring a running dataflow to its spec's replicas."""
    runtime = observed.runtime
    if runtime is not None and runtime.state is RunState.FENCED:
        return _fenced(observed, dataflow)
    if runtime is not None and (runtime.state is not RunState.RUNNING or runtime.route_version is None):
        runtime = None
    settling = _settling(dataflow, runtime, before)
    late = migrations.timed_out(dataflow, runtime, before, observed.now)
    desired = targets.desired_workers(dataflow, observed, runtime, before, timeouts, late)
    step = _rescale_step(dataflow, observed, before, runtime, desired, settling)
    actions: tuple[Action, ...] = drift.plain_children(observed)
    if step.shrink and not late:
        actions += drift.stateful_sets(observed, {Child.DRIVER: 1})
        executors = observed.children[Child.EXECUTORS]
        actions += (drift.apply_action(Child.EXECUTORS, executors, dataflow.replicas, exactly=True),)
    else:
        actions += drift.stateful_sets(observed, {Child.EXECUTORS: step.replicas, Child.DRIVER: 1})
    actions += migrations.cancel(dataflow, runtime, before) if late else step.put
    reason, message = _reason(dataflow, observed, step, desired, bool(actions), late)
    actions += () if runtime is None else drift.disruption_budget(observed, len(desired.absent))
    exhausted = migrations.revisions_exhausted(dataflow) if desired.exhausted else None
    return Step(
        reason,
        message,
        actions=actions,
        realised=reason is SettledReason.SETTLED,
        settled_target=settling,
        timed_out=late,
        degraded=exhausted or migrations.degraded(dataflow, runtime, late),
        waiting=desired.waiting,
        moving=migrations.moving_since(runtime, before),
    )


def _fenced(observed: ObservedState, dataflow: Dataflow) -> Step:
    replicas = {Child.EXECUTORS: max(dataflow.replicas, observed.children[Child.EXECUTORS].replicas), Child.DRIVER: 1}
    actions = drift.plain_children(observed) + drift.stateful_sets(observed, replicas)
    return Step(SettledReason.FENCED, "another run owns the checkpoint", actions=actions)


def _settling(dataflow: Dataflow, runtime: ObservedRuntime | None, before: Status) -> SettledTarget | None:
    """Since which epoch this dataflow's target has been settled; None if it is not, or unknown."""
    if runtime is None or runtime.target is None or not runtime.target.settled:
        return None
    if runtime.target.owner != dataflow.key.uid:
        return None  # the target of an earlier dataflow, whose generations are unrelated
    last = before.settled_target
    if last is not None and last.generation == runtime.target.generation and last.epoch <= runtime.epoch:
        return last
    return SettledTarget(runtime.target.generation, runtime.epoch)


def _rescale_step(
    dataflow: Dataflow,
    observed: ObservedState,
    before: Status,
    runtime: ObservedRuntime | None,
    desired: DesiredWorkers,
    settling: SettledTarget | None,
) -> RescaleStep:
    executors = observed.children[Child.EXECUTORS]
    processes = executors.replicas if executors.state is not ChildState.ABSENT else 0
    actions = rescale.decide(
        rescale.Observed(rescale.lowest(processes), None if runtime is None else _runtime(runtime, settling)),
        rescale.Desired(
            dataflow.key.uid, desired.generation, _workers(desired.workers), _workers(desired.spare), takes_over=True
        ),
    )
    replicas = max(
        processes, dataflow.replicas, count_holding_slots(observed.runtime, before) if runtime is None else 0
    )
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


def _runtime(runtime: ObservedRuntime, settling: SettledTarget | None) -> rescale.Runtime:
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
    """What is being waited for; the earliest step first."""
    runtime, awaited = observed.runtime, step.waits_for
    if drift.orphaned(observed):
        return (
            ProgressingReason.CHILDREN,
            "pods of a deleted StatefulSet are ending; it is recreated once they are gone",
        )
    if awaited is ProgressingReason.RUNTIME and runtime is not None and runtime.state is RunState.RUNNING:
        return ProgressingReason.FIRST_EPOCH, "the query is running and has not committed an epoch yet"
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
        return ProgressingReason.PODS_ENDING, "pods without bins are ending"
    if acts or drift.deleting(observed, Child):
        return ProgressingReason.CHILDREN, "the children are being applied"
    return SettledReason.SETTLED, f"{dataflow.replicas} workers share the bins"


MESSAGES = {
    ProgressingReason.CHILDREN: "executors {} are being started",
    ProgressingReason.OTHER_OWNER: "the target belongs to another owner",
    ProgressingReason.GENERATION: "the runtime has a target of a newer generation; the spec is reread",
    ProgressingReason.TARGET: "requesting that workers {} share the bins",
    ProgressingReason.MIGRATION: "bins are moving",
    ProgressingReason.HOLD: "workers {} end after one more epoch",
    ProgressingReason.BINS: "workers {} still hold bins",
    ProgressingReason.PODS_ENDING: "the pods of workers {} are ending: they hold no bins",
}
"""The message for each reason; the slots replace the braces."""
