"""The usual case, a running dataflow: the number of executors, the runtime's target, and what is being waited for.

`binshift.rescale` decides; this module passes it the observed state, and turns its decision into actions on StatefulSets,
whose ordinals are the slots. It adds four things:

- *Executors that do not register.* After a timeout, the target takes the registered ones (`targets`). That is another target
  of the same generation of the object, hence the revisions (`observed.REVISIONS`).
- *Executors that hold bins.* On resume, executors are started for all slots that last held bins, in the spec or not, because the
  first epoch needs them. The runtime then reports what each of them holds, and those beyond the spec are drained as usual.
- *Migrations that time out or fail.* See `migrations`.
- *Executors of an earlier executor class, or on nodes that are about to go.* See `rolling`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from binshift import rescale
from binshift.model import Worker
from binshift_operator.decide import drift, migrations, rolling, targets
from binshift_operator.decide.rolling import Plan
from binshift_operator.decide.targets import DesiredWorkers
from binshift_operator.model.actions import Action, DeletePod, PutSettings, PutTarget, Rebalance, Step
from binshift_operator.model.drivers import driver_count
from binshift_operator.model.messages import format_first
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.pods import Pod
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.situation import Situation
from binshift_operator.model.status import SettledTarget
from binshift_operator.status import count_holding_slots


@dataclass(frozen=True, slots=True)
class RescaleStep:
    """The next step of `binshift.rescale`; ``replicas``: the number of executors to run now; ``replaced``: the executor to delete."""

    replicas: int
    shrink: bool = False
    replaced: Pod | None = None
    put: tuple[PutTarget, ...] = ()
    waits_for: ProgressingReason | None = None
    slots: frozenset[int] = frozenset()


def run(situation: Situation) -> Step:
    """Bring a running dataflow to its spec's replicas."""
    dataflow, observed = situation.dataflow, situation.observed
    if observed.runtime_state is RunState.FENCED:
        return _fenced(situation)
    settling = _settling(situation)
    planned, timed_out = rolling.plan(situation), migrations.timed_out(situation)
    late = timed_out and not situation.retries
    desired = targets.desired_workers(situation, planned, late=late)
    step = _rescale_step(situation, planned, desired, settling)
    actions: tuple[Action, ...] = drift.plain_children(observed) + _settings(situation)
    if step.shrink and not late:
        actions += drift.stateful_sets(observed, {Child.DRIVER: driver_count(dataflow)})
        executors = observed.children[Child.EXECUTORS]
        actions += (drift.apply_action(Child.EXECUTORS, executors, step.replicas, exactly=True),)
    else:
        actions += drift.stateful_sets(observed, {Child.EXECUTORS: step.replicas, Child.DRIVER: driver_count(dataflow)})
    actions += migrations.cancel(situation) if late else step.put + _replacements(situation, planned, step)
    reason, message = _reason(situation, planned, step, desired, acts=bool(actions), late=late)
    rollout = rolling.progress(situation, planned, settled=reason is SettledReason.SETTLED)
    reason, message = rolling.explain(situation, reason, message, rollout)
    if situation.rebalance and reason is SettledReason.SETTLED:
        actions += (Rebalance(situation.rebalance),)
    actions += () if situation.running is None else drift.disruption_budget(observed, len(desired.absent))
    exhausted = migrations.revisions_exhausted(dataflow) if desired.exhausted else None
    return Step(
        reason,
        message,
        actions=actions,
        realised=reason is SettledReason.SETTLED,
        settled_target=settling,
        timed_out=timed_out and not step.put,
        degraded=exhausted or migrations.degraded(situation, late=timed_out),
        waiting=desired.waiting,
        moving=migrations.moving_since(situation),
        rollout=rollout,
    )


def _settings(situation: Situation) -> tuple[PutSettings, ...]:
    """Change the settings of the running driver where they differ from the spec's; a driver that reports none gets them when it starts."""
    runtime, wanted = situation.running, situation.dataflow.settings
    if runtime is None or runtime.settings is None or runtime.settings == wanted:
        return ()
    return (PutSettings(wanted),)


def _replacements(situation: Situation, planned: Plan, step: RescaleStep) -> tuple[DeletePod, ...]:
    """Delete outdated executors that hold nothing, if they return on the spec's template."""
    pods = planned.broken if step.replaced is None else {*planned.broken, step.replaced}
    if not rolling.can_return(situation):
        return ()
    return tuple(
        DeletePod(pod.name, pod.uid, rolling.why_deleted(pod)) for pod in sorted(pods, key=lambda pod: pod.slot)
    )


def _fenced(situation: Situation) -> Step:
    observed = situation.observed
    executors = max(situation.dataflow.replicas, observed.children[Child.EXECUTORS].replicas)
    replicas = {Child.EXECUTORS: executors, Child.DRIVER: driver_count(situation.dataflow)}
    stateful = drift.stateful_sets(observed, replicas)
    actions = drift.plain_children(observed) + stateful
    return Step(SettledReason.FENCED, "another run owns the checkpoint", actions=actions)


def _settling(situation: Situation) -> SettledTarget | None:
    """Since which epoch this dataflow's target has been settled; None if it is not, or unknown."""
    runtime, target, last = situation.running, situation.settled_target, situation.before.settled_target
    if runtime is None or target is None:
        return None
    if last is not None and last.generation == target.generation and last.epoch <= runtime.epoch:
        return last
    return SettledTarget(target.generation, runtime.epoch)


def _rescale_step(
    situation: Situation, planned: Plan, desired: DesiredWorkers, settling: SettledTarget | None
) -> RescaleStep:
    executors, runtime = situation.observed.children[Child.EXECUTORS], situation.running
    processes = executors.replicas if executors.state is not ChildState.ABSENT else 0
    observed = rescale.Observed(rescale.lowest(processes), None if runtime is None else _runtime(runtime, settling))
    outgoing, spec = planned.outgoing, planned.processes
    spare = frozenset(range(spec)) - desired.workers
    slots = _workers(desired.workers), _workers(spare if outgoing is None else spare - {outgoing.slot})
    wanted = rescale.Desired(situation.dataflow.key.uid, desired.generation, *slots, takes_over=True)
    holding = count_holding_slots(situation.observed.runtime, situation.before) if runtime is None else 0
    replicas = max(processes, spec, holding)
    step = RescaleStep(replicas)
    for action in rescale.decide(observed, wanted):
        match action:
            case rescale.StartWorkers(workers):
                count = max(replicas, 1 + max(workers))
                step = RescaleStep(count, waits_for=ProgressingReason.CHILDREN, slots=frozenset(workers))
            case rescale.StopWorkers(workers):
                gone = outgoing if outgoing is not None and outgoing.slot in workers else None
                ending, shrink = ProgressingReason.PODS_ENDING, processes > spec
                step = RescaleStep(spec, shrink, gone, waits_for=ending, slots=frozenset(workers))
            case rescale.PutTarget(target):
                put, reason = PutTarget(target.generation, tuple(sorted(target.workers))), ProgressingReason.TARGET
                step = RescaleStep(step.replicas, put=(put,), waits_for=reason, slots=frozenset(target.workers))
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
    situation: Situation, planned: Plan, step: RescaleStep, desired: DesiredWorkers, *, acts: bool, late: bool
) -> tuple[ProgressingReason | SettledReason, str]:
    """What is being waited for; the earliest step first."""
    observed, replicas, awaited = situation.observed, planned.processes, step.waits_for
    runtime = observed.runtime
    if drift.orphaned(observed):
        message = "pods of a deleted StatefulSet are ending; it is recreated once they are gone"
        return ProgressingReason.CHILDREN, message
    if awaited is ProgressingReason.RUNTIME and observed.runtime_state is RunState.RUNNING:
        return ProgressingReason.FIRST_EPOCH, "the query is running and has not committed an epoch yet"
    if awaited is ProgressingReason.RUNTIME:
        return awaited, observed.silence if runtime is None else runtime.reason
    moves = late or awaited is ProgressingReason.MIGRATION
    if runtime is not None and moves and (ended := migrations.ended_reason(runtime, late)):
        return ended
    away = frozenset(range(replicas)) - (runtime.registered if runtime is not None else frozenset())
    unused = desired.spare and awaited in (None, ProgressingReason.MIGRATION, ProgressingReason.TARGET)
    stopped = runtime is not None and not migrations.is_moving(runtime)
    still = awaited is None or (awaited is ProgressingReason.MIGRATION and stopped)
    if unused or awaited is ProgressingReason.REGISTRATION or (still and away):
        return ProgressingReason.REGISTRATION, targets.describe_registration(situation, replicas, desired.waiting)
    if awaited is not None:
        return awaited, MESSAGES[awaited].format(format_first(step.slots))
    if any(pod.slot >= replicas for pod in observed.executors):
        return ProgressingReason.PODS_ENDING, "pods without bins are ending"
    if acts or drift.deleting(observed, Child):
        return ProgressingReason.CHILDREN, "the children are being applied"
    return SettledReason.SETTLED, f"{replicas} workers share the bins"


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
