"""The executors that should hold the bins: of the planned ones (`rolling`) the registered ones and, for a while, the others.

A target is a set of slots, not a number, so an unschedulable slot does not block the slots above it. Each slot has a clock of its
own, kept in the status (`Status.waiting`). It starts when the slot is first wanted but not in the runtime's target, or when a slot of
the target has neither an executor nor bins. A new generation does not restart it; otherwise an autoscaler that keeps editing
``replicas`` could keep new executors from ever being used:

- an unregistered slot is waited for until its clock exceeds the timeout;
- once the clock of a registered slot exceeds the timeout, nothing more is waited for, and the target takes the registered slots;
- a slot of the target whose executor was lost before bins arrived there is waited for no longer than one outside the target, as the
  runtime would block all others until it is back. Another target includes it once it registers.

`describe_registration` is the message about executors that have not registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binshift_operator.decide import migrations
from binshift_operator.decide.rolling import Plan
from binshift_operator.model.messages import format_duration, format_first, truncate
from binshift_operator.model.observed import REVISIONS
from binshift_operator.model.observed_runtime import ObservedRuntime
from binshift_operator.model.pods import PodState
from binshift_operator.model.situation import Situation

REASON_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class DesiredWorkers:
    """The current target.

    Attributes:
        workers: the slots that should hold the bins.
        generation: of the target.
        spare: slots of the spec that are not waited for.
        waiting: see `Status.waiting`.
        absent: slots, that of a surge included, that have had no executor and no bins for longer than the timeout.
        exhausted: whether this generation has no revision left for another target.
    """

    workers: frozenset[int]
    generation: int
    spare: frozenset[int]
    waiting: Mapping[int, float]
    absent: frozenset[int]
    exhausted: bool = False


def desired_workers(situation: Situation, planned: Plan, *, late: bool) -> DesiredWorkers:
    """The target to request. ``late``: whether the migration has timed out."""
    dataflow, runtime, now = situation.dataflow, situation.running, situation.observed.now
    first, full = dataflow.generation * REVISIONS, planned.workers
    if runtime is None:
        return DesiredWorkers(full, first, frozenset(), _continued(situation), frozenset())
    target = runtime.target
    taken = frozenset() if target is None else target.workers
    processes = frozenset(range(planned.processes))
    waiting = _waiting(full | planned.surge | (processes - runtime.registered), taken, runtime, situation)
    overdue = situation.overdue(waiting)
    long, absent = overdue & full, (overdue & processes) - runtime.registered
    mine = migrations.is_ours(dataflow, runtime)
    if mine and late and target is not None:
        return DesiredWorkers(target.workers, target.generation, full - target.workers, waiting, absent)
    unregistered = full - (taken - absent) - runtime.registered
    spare = unregistered if long & runtime.registered else unregistered & long
    workers = full - spare or full
    spare = full - workers
    if not mine or target is None:
        return DesiredWorkers(workers, first, spare, waiting, absent)
    failed = situation.retries or migrations.should_retry(runtime, now, situation.timeouts)
    fresh = target.workers != workers or failed
    last = first + REVISIONS - 1
    ended = fresh and target.generation == last
    return DesiredWorkers(workers, min(target.generation + fresh, last), spare, waiting, absent, ended)


def _waiting(
    full: frozenset[int], taken: frozenset[int], runtime: ObservedRuntime, situation: Situation
) -> Mapping[int, float]:
    """Since when each slot has been outside the target, or in it without an executor and without bins."""
    without = (full - taken) | (full - runtime.registered - runtime.holding)
    return {slot: situation.before.waiting.get(slot, situation.observed.now) for slot in sorted(without)}


def _continued(situation: Situation) -> Mapping[int, float]:
    """The clocks continue while a driver temporarily does not answer; with a new driver, all executors register again."""
    silent = situation.observed.runtime is None and situation.observed.has_live_driver
    return situation.before.waiting if silent else {}


def describe_registration(situation: Situation, processes: int, waiting: Mapping[int, float]) -> str:
    """Which executors have not registered, for how long and why, and which are ready; times are whole minutes."""
    dataflow, observed = situation.dataflow, situation.observed
    full, runtime = frozenset(range(processes)), observed.runtime
    registered = frozenset() if runtime is None else runtime.registered & full
    holding = frozenset() if runtime is None else runtime.holding & full
    missing, ready = full - registered, registered - holding
    parts = [f"{len(holding)} of {dataflow.replicas} executors share the state."]
    if missing:
        since = min((waiting[slot] for slot in missing if slot in waiting), default=observed.now)
        executors = "Executor {} has" if len(missing) == 1 else "Executors {} have"
        duration = format_duration(observed.now - since)
        parts.append(f"{executors.format(format_first(missing))} not registered{duration}{_why(situation, missing)}.")
    if ready:
        parts.append(f"Ready and without state: {format_first(ready)}.")
    return " ".join(parts)


def _why(situation: Situation, missing: frozenset[int]) -> str:
    """The state of the first pod that has not registered, in parentheses."""
    slot, name = min(missing), situation.dataflow.key.executor
    pod = next((pod for pod in situation.observed.executors if pod.slot == slot), None)
    if pod is None:
        return f" (pod {name}-{slot} does not exist)"
    if pod.deleting_since is not None:
        return f" (pod {pod.name} is being deleted)"
    if pod.state is PodState.FINE:
        return ""
    return f" (pod {pod.name}: {pod.state.value}: {truncate(pod.message, REASON_CHARACTERS_MAX)})"
