"""Which executors the bins should be on: of those the spec asks for, the registered ones, and for a while those that may still register.

A target is a set of slots, not a number of them: a slot that cannot be scheduled does not keep the slots above it from being used.
Each slot has a clock of its own, kept in the status (`Status.waiting`). It starts when the slot is first wanted without being in the
runtime's target, or when a slot of the target has neither an executor nor bins. It does not start again with a new generation, so that
an autoscaler that edits ``replicas`` all the time cannot keep new executors from being used:

- a slot without an executor is waited for until its clock exceeds the limit;
- once the clock of a registered slot exceeds the limit, nothing is waited for any more, and the target takes what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binshift_operator.decide import migrations
from binshift_operator.decide.limits import Limits
from binshift_operator.model.observed import REVISIONS, ObservedRuntime, ObservedState
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status


@dataclass(frozen=True, slots=True)
class DesiredWorkers:
    """What is asked for now.

    Attributes:
        workers: the slots that should hold the bins.
        generation: of the target.
        spare: slots that the spec asks for and that are not waited for.
        waiting: see `Status.waiting`.
        exhausted: whether another revision of this generation would be needed, and there is none.
        absent: slots without an executor and without bins, for longer than the limit.
    """

    workers: frozenset[int]
    generation: int
    spare: frozenset[int]
    waiting: Mapping[int, float]
    absent: frozenset[int]
    exhausted: bool = False


def desired_workers(
    dataflow: Dataflow,
    observed: ObservedState,
    runtime: ObservedRuntime | None,
    before: Status,
    limits: Limits,
    late: bool,
) -> DesiredWorkers:
    """The target to ask for. ``runtime``: None unless it runs; ``late``: whether the migration has timed out."""
    first, full = dataflow.generation * REVISIONS, frozenset(range(dataflow.replicas))
    if runtime is None:
        return DesiredWorkers(full, first, frozenset(), _kept(observed, before), frozenset())
    target = runtime.target
    taken = frozenset() if target is None else target.workers
    waiting = _waiting(full, taken, runtime, before, observed.now)
    long = {slot for slot, since in waiting.items() if observed.now - since > limits.registration_wait_seconds}
    absent = frozenset(long - runtime.registered)
    mine = migrations.is_ours(dataflow, runtime)
    if mine and late and target is not None:
        return DesiredWorkers(target.workers, target.generation, full - target.workers, waiting, absent)
    unregistered = full - taken - runtime.registered
    spare = unregistered if long & runtime.registered else unregistered & long
    workers = full - spare or full
    spare = full - workers
    if not mine or target is None:
        return DesiredWorkers(workers, first, spare, waiting, absent)
    fresh = target.workers != workers or migrations.should_retry(runtime, observed.now, limits)
    last = first + REVISIONS - 1
    ended = fresh and target.generation == last
    return DesiredWorkers(workers, min(target.generation + fresh, last), spare, waiting, absent, ended)


def _waiting(
    full: frozenset[int], taken: frozenset[int], runtime: ObservedRuntime, before: Status, now: float
) -> Mapping[int, float]:
    """Since when each slot is outside the target, or in it without an executor and without bins."""
    without = (full - taken) | (full - runtime.registered - runtime.holding)
    return {slot: before.waiting.get(slot, now) for slot in sorted(without)}


def _kept(observed: ObservedState, before: Status) -> Mapping[int, float]:
    """The clocks of a driver that does not answer for a moment; executors register anew with one that starts."""
    driver = observed.driver
    silent = observed.runtime is None and driver is not None and driver.deleting_since is None
    return before.waiting if silent else {}
