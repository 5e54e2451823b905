"""The number of executors in force, with `spec.autoscaling`.

`binshift.autoscale` decides from the measured load, as under `binshift run --autoscale`. Its decisions live in the status: the spec belongs to
the user, and is never written. An edit of ``spec.replicas`` sets the number once; from there, the load decides again.

| state | number in force | ScalingActive |
|---|---|---|
| the spec cannot be parsed | the last one | as before |
| mode Recommend | the spec's | False: `Recommend` |
| suspended, paused | the last one | False: `Suspended`, `Paused` |
| a migration timed out | the last one, until the spec is edited | False: `MigrationTimedOut` |
| no query that reports its load | the last one | False: `NoLoad` |
| otherwise | that of `binshift.autoscale` | True, with its reason |

Executors that cannot start are no reason to request more: then the range ends at the number in force.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from binshift.autoscale import Autoscaler, Decision, Reason
from binshift.load import Load
from binshift.worker_need import Policy
from binshift_operator.model.autoscaling import Autoscaling, AutoscalingStatus, Mode, Scale
from binshift_operator.model.reasons import ScalingReason
from binshift_operator.model.situation import Situation
from binshift_operator.model.specification import Dataflow
from binshift_operator.status.summary import NUMBERS_SECONDS

UNBOUNDED: Final = "; epochs have no bound, so that a backlog delays moves: set maxEpoch"


@dataclass
class ScalingMemory:
    """What is kept between two decisions; all of it can be lost: then some minutes pass before executors are stopped.

    Attributes:
        autoscaler: of this dataflow; None before the first load.
        last: the newest result; None before the first one.
        shown_at: when its figures were new.
    """

    autoscaler: Autoscaler | None = None
    last: AutoscalingStatus | None = None
    shown_at: float = 0.0


def autoscale(situation: Situation, memory: ScalingMemory) -> Situation:
    """The situation with the number of executors in force; ``memory`` is updated."""
    dataflow, spec = situation.dataflow, situation.dataflow.autoscaling
    if dataflow.parse_error:
        return replace(situation, autoscaling=situation.before.autoscaling)
    if spec is None:
        memory.autoscaler = memory.last = None
        return situation
    now = situation.observed.now
    last = memory.last or situation.before.autoscaling
    before = _in_force(dataflow, spec, last)
    found = _decided(situation, spec, before, memory)
    found = replace(found, last_scale=None if last is None else last.last_scale)
    if spec.mode is Mode.AUTO and found.desired != before:
        found = replace(found, last_scale=Scale(before, found.desired, now, found.message))
    if last is not None and _is_same(found, last) and now - memory.shown_at < NUMBERS_SECONDS:
        found = replace(found, message=last.message, recommended=last.recommended or found.recommended)
    else:
        memory.shown_at = now
    memory.last = found
    return replace(situation, dataflow=replace(dataflow, replicas=found.desired), autoscaling=found)


def _is_same(found: AutoscalingStatus, last: AutoscalingStatus) -> bool:
    """Whether they differ in figures at most."""
    return replace(found, message="", recommended=None) == replace(last, message="", recommended=None)


def _in_force(dataflow: Dataflow, spec: Autoscaling, last: AutoscalingStatus | None) -> int:
    """The number so far: the spec's once it was edited, and in the first decision."""
    if spec.mode is Mode.RECOMMEND:
        return dataflow.replicas
    return spec.within(dataflow.replicas if last is None or last.replicas != dataflow.replicas else last.desired)


def _decided(situation: Situation, spec: Autoscaling, before: int, memory: ScalingMemory) -> AutoscalingStatus:
    dataflow, runtime = situation.dataflow, situation.running
    kept = AutoscalingStatus(dataflow.replicas, before, ScalingReason.NO_LOAD, "no running query reports its load")
    if dataflow.paused:
        return replace(kept, reason=ScalingReason.PAUSED, message="the dataflow is paused")
    if dataflow.suspend:
        return replace(kept, reason=ScalingReason.SUSPENDED, message="the stream is suspended")
    if situation.before.timed_out_generation == dataflow.generation:
        message = "a migration timed out: the number of executors stays until the spec is edited"
        return replace(kept, reason=ScalingReason.MIGRATION_TIMED_OUT, message=message)
    if runtime is None or runtime.load is None:
        return kept
    short = _cannot_start(situation, before)
    policy = replace(spec.policy, most=max(before, spec.policy.least)) if short else spec.policy
    if memory.autoscaler is None:
        memory.autoscaler = Autoscaler(policy)
    memory.autoscaler.policy = policy
    decision = memory.autoscaler.decide(runtime.load, before, settled=_is_settled(situation, before, short=short))
    recommended = None if decision.reason is Reason.MEASURING else decision.recommended
    found = replace(
        kept, recommended=recommended, message=decision.message + _key(decision, runtime.load) + _bound(runtime.load)
    )
    if spec.mode is Mode.RECOMMEND:
        return replace(found, reason=ScalingReason.RECOMMEND)
    limited = _limit(decision, policy, short=short)
    return replace(found, desired=decision.workers, reason=ScalingReason(decision.reason.value), limited=limited)


def _limit(decision: Decision, policy: Policy, *, short: bool) -> ScalingReason | None:
    """Why there are fewer executors than the load needs."""
    if decision.reason is Reason.INEFFECTIVE:
        return ScalingReason.INEFFECTIVE
    if decision.reason is Reason.MEASURING or decision.recommended < policy.most:
        return None
    if short:
        return ScalingReason.UNSCHEDULABLE
    return ScalingReason.MAX_REPLICAS if decision.limited else None


def _key(decision: Decision, load: Load) -> str:
    """The hot key, where it is the limit."""
    key = load.hottest.key if load.hottest is not None and decision.reason is Reason.INEFFECTIVE else ""
    return f"; its key is {key!r}" if key else ""


def _bound(load: Load) -> str:
    return UNBOUNDED if load.bound is None and load.measured else ""


def _cannot_start(situation: Situation, replicas: int) -> bool:
    """Whether an executor of those in force has been awaited for too long."""
    return any(slot < replicas for slot in situation.overdue(situation.before.waiting))


def _is_settled(situation: Situation, replicas: int, *, short: bool) -> bool:
    """Whether the executors in force, as far as they start, own the bins and nothing moves."""
    target = situation.settled_target
    return target is not None and (len(target.workers) == replicas or short)
