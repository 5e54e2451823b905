"""The number of executors in force, with `spec.autoscaling`.

`binshift.autoscale` decides from the measured load, as under `binshift run --autoscale`. Its decisions live in the status: the spec belongs to
the user, and is never written. An edit of ``spec.replicas`` sets the number once; from there, the load decides again.

| state | number in force | ScalingActive |
|---|---|---|
| the spec cannot be parsed | the last one | as before |
| mode Recommend | the spec's | False: `Recommend` |
| suspended, paused | the last one | False: `Suspended`, `Paused` |
| a migration timed out, and nothing but its number is decided | the last one; it is requested again after a while | False: `MigrationTimedOut` |
| no query that reports its load | the last one | False: `NoLoad` |
| otherwise | that of `binshift.autoscale` | True, with its reason |

Before executors are added because one of them is much busier than the others, they share the bins by load (`Situation.rebalance`).
A migration that has timed out is no reason to stay at its number: another one is requested at once, and the same one after `RETRY_SECONDS_MIN`, or
after as long as the migration could take: so at most half of the time goes into moves that come to nothing.

Executors that cannot start are no reason to request more: then the range ends at the number in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from binshift.autoscale import Autoscaler, Decision, Reason
from binshift.load import Load
from binshift.worker_need import Policy
from binshift_operator.decide.migrations import is_moving
from binshift_operator.model.autoscaling import Autoscaling, AutoscalingStatus, Mode, Scale
from binshift_operator.model.reasons import ScalingReason
from binshift_operator.model.situation import Situation
from binshift_operator.model.specification import Dataflow
from binshift_operator.status.summary import NUMBERS_SECONDS

RETRY_SECONDS_MIN: Final = 300.0
UNBOUNDED: Final = "; epochs have no bound, so that a backlog delays moves: set maxEpoch"
_TIMED_OUT: Final[Mapping[str, Any]] = {
    "reason": ScalingReason.MIGRATION_TIMED_OUT,
    "message": "a migration timed out: it is requested again after a while, or as soon as the load needs another number of executors",
}


@dataclass
class ScalingMemory:
    """What is kept between two decisions; all of it can be lost: then some minutes pass before executors are stopped.

    Attributes:
        autoscaler: of this dataflow; None before the first load.
        last: the newest result; None before the first one.
        shown_at: when its figures were new.
        rebalance: why the executors should share the bins by load, until that is requested; empty if they should not.
        late: since when it is known that a migration has timed out, and the number in force then; None if none has.
    """

    autoscaler: Autoscaler | None = None
    last: AutoscalingStatus | None = None
    shown_at: float = 0.0
    rebalance: str = ""
    late: tuple[float, int] | None = None


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
    dataflow = replace(dataflow, replicas=found.desired)
    scales = spec.mode is Mode.AUTO and found.reason is not ScalingReason.MIGRATION_TIMED_OUT
    retries = scales and _retries(situation, found.desired, memory)
    return replace(situation, dataflow=dataflow, autoscaling=found, rebalance=memory.rebalance, retries=retries)


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
    requested, memory.rebalance = memory.rebalance, ""
    kept = AutoscalingStatus(dataflow.replicas, before, ScalingReason.NO_LOAD, "no running query reports its load")
    if dataflow.paused:
        return replace(kept, reason=ScalingReason.PAUSED, message="the dataflow is paused")
    if dataflow.suspend:
        return replace(kept, reason=ScalingReason.SUSPENDED, message="the stream is suspended")
    if not _is_late(situation):
        memory.late = None
    elif memory.late is None:
        memory.late = situation.observed.now, before
    if runtime is None or runtime.load is None:
        return replace(kept, **_TIMED_OUT) if _is_late(situation) else kept
    short = _cannot_start(situation, before)
    policy = replace(spec.policy, most=max(before, spec.policy.least)) if short else spec.policy
    if memory.autoscaler is None:
        memory.autoscaler = Autoscaler(policy)
    memory.autoscaler.policy = policy
    settled = _is_settled(situation, before, short=short)
    decision = memory.autoscaler.decide(runtime.load, before, settled=settled)
    recommended = None if decision.reason is Reason.MEASURING else decision.recommended
    found = replace(
        kept, recommended=recommended, message=decision.message + _key(decision, runtime.load) + _bound(runtime.load)
    )
    if spec.mode is Mode.RECOMMEND:
        return replace(found, reason=ScalingReason.RECOMMEND, message=found.message + _skew(dataflow, runtime.load))
    if _is_late(situation) and not _retries(situation, decision.workers, memory):
        return replace(found, **_TIMED_OUT)
    if decision.rebalance:
        memory.rebalance = decision.message
    elif settled and decision.reason is Reason.REBALANCE:
        memory.rebalance = requested
    limited = _limit(decision, policy, short=short)
    return replace(found, desired=decision.workers, reason=ScalingReason(decision.reason.value), limited=limited)


def _limit(decision: Decision, policy: Policy, *, short: bool) -> ScalingReason | None:
    """Why there are fewer executors than the load needs."""
    if decision.reason is Reason.INEFFECTIVE:
        return ScalingReason.INEFFECTIVE
    if decision.reason in (Reason.MEASURING, Reason.REBALANCE) or decision.recommended < policy.most:
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


def _skew(dataflow: Dataflow, load: Load) -> str:
    """The proposal to rebalance, where that makes rows cheaper."""
    if load.skew is None or load.skew.relief == 1.0:
        return ""
    times = f"{load.skew.now:.2g} times its share of the rows, {load.skew.balanced:.2g} times after a rebalance"
    return f"; the busiest executor has {times}: kubectl binshift rebalance {dataflow.key.name}"


def _is_late(situation: Situation) -> bool:
    """Whether a migration of this generation has timed out."""
    return situation.before.timed_out_generation == situation.dataflow.generation


def _retries(situation: Situation, desired: int, memory: ScalingMemory) -> bool:
    """Whether a target is requested although a migration has timed out: another number is wanted, or it was long ago. Nothing must move."""
    runtime, late = situation.running, memory.late
    if late is None or runtime is None or is_moving(runtime):
        return False
    since, number = late
    rested = max(RETRY_SECONDS_MIN, situation.dataflow.migration.timeout_seconds)
    return desired != number or situation.observed.now - since >= rested


def _cannot_start(situation: Situation, replicas: int) -> bool:
    """Whether an executor of those in force has been awaited for too long."""
    return any(slot < replicas for slot in situation.overdue(situation.before.waiting))


def _is_settled(situation: Situation, replicas: int, *, short: bool) -> bool:
    """Whether the executors in force, as far as they start, own the bins and nothing moves."""
    target = situation.settled_target
    return target is not None and (len(target.workers) == replicas or short)
