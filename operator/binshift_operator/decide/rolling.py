"""Rolls the executors: replaces the outdated ones one after the other, while the query runs.

An executor is outdated if it is of another executor class, or on a node that is about to go: its next pod is scheduled elsewhere.

One executor more than the spec's, the *surge*, is made from the new template and takes over the bins of slot 0. Slot 0 is then empty,
its pod is deleted, and it returns on the new template to take over the bins of slot 1, and so on; last, the bins of the surge go to the
last slot. So each bin moves about once. `plan` decides from the observed state which slots should hold the bins now:

| of the slots 0 ... replicas, those not in the runtime's target | not to hold bins |
|---|---|
| one has an outdated executor | the lowest of these: it is deleted once it is empty |
| one has no registered executor of the new template | the highest of these: it starts |
| neither | the lowest slot with an outdated executor |

`targets` requests these slots, `binshift.rescale` waits as it does for shrinking (settled, one epoch later, no bins), and `workers` acts.
Once no executor of the spec's slots is outdated, the plan is the spec's, and the surge is drained as by any other shrinking.

An outdated executor that cannot run and holds nothing is deleted at once.

A surge that has no room in time, on the nodes or in a quota, is given up for as long as executors are outdated on nodes that stay: each
slot's bins then go to the other slots, and return. `executor.maxSurge: 0` has the same effect. A single executor has no others: it waits for
its surge, and without one it is replaced by a restart.

For executors on nodes that are about to go, no surge is given up: their place there is no room for the next ones. Without room nothing
moves, an eviction drains an executor as without a roll, and a roll ends once its node stays. A node that is about to go restarts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from binshift_operator.decide import stopping
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ClaimState
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.pods import Pod, PodState
from binshift_operator.model.reasons import ProgressingReason, SettledReason
from binshift_operator.model.situation import Situation
from binshift_operator.model.status import RolloutStatus

QUOTA = "exceeded quota"
"""Part of the message about pods that a quota rejects."""
STEPS = frozenset(
    {
        *(ProgressingReason.CHILDREN, ProgressingReason.REGISTRATION, ProgressingReason.TARGET),
        *(ProgressingReason.MIGRATION, ProgressingReason.HOLD, ProgressingReason.BINS, ProgressingReason.PODS_ENDING),
        SettledReason.SETTLED,
    }
)
"""What is awaited in each step of a roll; other reasons have nothing to do with it."""
NODES_SHOWN_MAX = 8
"""How many nodes the status names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The executors to have now.

    Attributes:
        workers: the slots that should hold the bins.
        processes: the number of executors to run.
        outgoing: the executor to delete once it holds nothing; None if there is none.
        surge: the slot of the surge, also while it is given up; empty if there is none.
        rolls: whether executors are being rolled.
        broken: outdated executors that cannot run and hold nothing.
    """

    workers: frozenset[int]
    processes: int
    outgoing: Pod | None = None
    surge: frozenset[int] = frozenset()
    rolls: bool = False
    broken: tuple[Pod, ...] = ()


def is_possible(situation: Situation) -> bool:
    """Whether outdated pods can be replaced while the query runs; otherwise only a restart replaces them.

    A query without an epoch has nothing to lose by a restart, and may wait for pods that cannot run. So may a program that loads, and a
    query without executors.
    """
    driver, runtime = situation.observed.driver, situation.observed.runtime
    alone = situation.dataflow.replicas == 1 and not _surge_max(situation)
    if driver is None or driver.deleting_since is not None or alone or stopping.needs_restart(situation):
        return False
    if runtime is None:
        return driver.state not in stopping.NEVER_RAN
    fine = all(pod.state is PodState.FINE for pod in stopping.outdated_pods(situation))
    if runtime.state is RunState.LOADING:
        waited = situation.awaited_seconds(ProgressingReason.RUNTIME) or 0.0
        return fine and not runtime.failures and waited <= situation.timeouts.registration_wait_seconds
    return situation.running is not None and (fine or bool(runtime.registered))


def plan(situation: Situation) -> Plan:
    """The next step of a roll, or the spec if no executor is outdated or nothing is known of the bins."""
    replicas, runtime = situation.dataflow.replicas, situation.running
    outdated = _outdated(situation)
    if runtime is None or not any(slot < replicas for slot in outdated) or not is_possible(situation):
        return Plan(frozenset(range(replicas)), replicas)
    surge = frozenset(range(replicas, replicas + _surge_max(situation)))
    in_place = {slot for slot, pod in outdated.items() if slot < replicas and not pod.leaves}
    given_up = bool(in_place) and _is_given_up(situation, runtime)
    slots = frozenset(range(replicas)) | (frozenset() if given_up else surge)
    next_slot = min(in_place if given_up else slots & outdated.keys())
    chosen = _choose(slots, slots & outdated.keys(), next_slot, situation, runtime)
    idle = (pod for slot, pod in outdated.items() if slot not in runtime.registered | runtime.holding)
    broken = tuple(pod for pod in idle if pod.state is not PodState.FINE)
    return Plan(slots - {chosen}, len(slots), outdated.get(chosen), surge, rolls=True, broken=broken)


def _choose(
    slots: frozenset[int], outdated: frozenset[int], next_slot: int, situation: Situation, runtime: ObservedRuntime
) -> int:
    """The slot that should hold no bins: see the table above. ``next_slot``: the next one whose bins move."""
    outside = slots - (frozenset() if runtime.target is None else runtime.target.workers)
    if leaving := outside & outdated:
        return min(leaving)
    starting = outside - _updated(situation, runtime)
    return max(starting) if starting else next_slot


def _updated(situation: Situation, runtime: ObservedRuntime) -> frozenset[int]:
    """The slots with a registered executor that is not outdated."""
    ready = {pod.slot for pod in situation.observed.executors if pod.ready and pod.deleting_since is None}
    return frozenset(ready & runtime.registered) - _outdated(situation).keys()


def _outdated(situation: Situation) -> dict[int, Pod]:
    """The outdated executors by slot."""
    of_other_class = (pod for pod in stopping.outdated_pods(situation) if not pod.is_driver)
    return {pod.slot: pod for pod in (*of_other_class, *_leaving(situation))}


def _leaving(situation: Situation) -> list[Pod]:
    """The executors on nodes that are about to go."""
    return [pod for pod in situation.observed.executors if pod.leaves and pod.deleting_since is None]


def _surge_max(situation: Situation) -> int:
    given = situation.dataflow.section("executor").get("maxSurge")
    return 1 if given is None else min(1, int(given))


def _is_given_up(situation: Situation, runtime: ObservedRuntime) -> bool:
    """Whether the surge has had no room in time, and other executors can do without it. Without its pod, it was given up before."""
    observed, slot = situation.observed, situation.dataflow.replicas
    since = situation.before.waiting.get(slot, observed.now)
    late = observed.now - since > situation.timeouts.registration_wait_seconds
    if not late or slot in runtime.registered or slot == 1:
        return False
    pod, missing = next((pod for pod in observed.executors if pod.slot == slot), None), Child.EXECUTORS
    if pod is not None:
        return pod.state is PodState.UNSCHEDULABLE
    exceeded = missing in observed.missing_pods and QUOTA in observed.missing_pods[missing].reason
    return exceeded or observed.children[missing].replicas <= slot


def can_return(situation: Situation) -> bool:
    """Whether an executor that is deleted now would return on the new template, as far as is known."""
    observed = situation.observed
    missing = observed.account_missing or observed.credentials_missing or observed.certificate_problem
    return not missing and observed.claim is not ClaimState.ABSENT and stopping.is_template_current(observed)


def progress(situation: Situation, planned: Plan, *, settled: bool) -> RolloutStatus | None:
    """How far a roll is; it ends when everything is settled. While nothing is known, what was last known."""
    runtime, last = situation.running, situation.before.rollout
    if runtime is None:
        return last
    if not planned.rolls and (last is None or settled):
        return None
    slots = range(situation.dataflow.replicas)
    nodes = sorted({pod.node for pod in _leaving(situation)}) if planned.rolls else []
    updated = len(_updated(situation, runtime) & frozenset(slots))
    return RolloutStatus(updated, len(slots), tuple(nodes[:NODES_SHOWN_MAX]))


def explain(
    situation: Situation, reason: ProgressingReason | SettledReason, message: str, rollout: RolloutStatus | None
) -> tuple[ProgressingReason | SettledReason, str]:
    """Reason and message of a step: while executors are rolled, it is a step of that."""
    if rollout is None or reason not in STEPS:
        return reason, message
    if Child.EXECUTORS.value in situation.observed.refusals:
        return ProgressingReason.SPEC, stopping.TEMPLATES_REFUSED
    nodes = {pod.node: f"{pod.node} ({pod.leaves})" for pod in _leaving(situation) if pod.node in rollout.leaving_nodes}
    leave = f"executors leave {', '.join(map(nodes.__getitem__, sorted(nodes)))}; " if nodes else ""
    done = f"{rollout.updated} of {rollout.total} executors are updated"
    return ProgressingReason.ROLLING_EXECUTORS, f"{leave}{done}; {message}"


def why_deleted(pod: Pod) -> str:
    """Why an outdated executor is deleted."""
    going = f"its node {pod.node} is about to go ({pod.leaves})"
    return f"it holds no bins, and {going if pod.leaves else 'the spec has another template for executors'}"
