"""The executors that bins should be on: the registered ones among those of the spec and, for a while, those that may still register.

A target is a set of slots, not a number, so an unschedulable slot does not block the slots above it. Each slot has a clock of its
own, kept in the status (`Status.waiting`). It starts when the slot is first wanted but not in the runtime's target, or when a slot of
the target has neither an executor nor bins. A new generation does not restart it; otherwise an autoscaler that keeps editing
``replicas`` could keep new executors from ever being used:

- an unregistered slot is waited for until its clock exceeds the timeout;
- once the clock of a registered slot exceeds the timeout, nothing more is waited for, and the target takes the registered slots;
- a slot of the target whose executor was lost before bins arrived there is waited for no longer than one outside the target, as the
  runtime would block all others until it is back. Another target includes it once it registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binshift_operator.decide import migrations
from binshift_operator.model.observed import REVISIONS, ObservedRuntime, ObservedState
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status
from binshift_operator.model.timeouts import Timeouts


@dataclass(frozen=True, slots=True)
class DesiredWorkers:
    """The current target.

    Attributes:
        workers: the slots that should hold the bins.
        generation: of the target.
        spare: slots of the spec that are not waited for.
        waiting: see `Status.waiting`.
        absent: slots that have had no executor and no bins for longer than the timeout.
        exhausted: whether this generation has no revision left for another target.
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
    timeouts: Timeouts,
    late: bool,
) -> DesiredWorkers:
    """The target to request. ``runtime``: None unless the query runs; ``late``: whether the migration has timed out."""
    first, full = dataflow.generation * REVISIONS, frozenset(range(dataflow.replicas))
    if runtime is None:
        return DesiredWorkers(full, first, frozenset(), _continued(observed, before), frozenset())
    target = runtime.target
    taken = frozenset() if target is None else target.workers
    waiting = _waiting(full, taken, runtime, before, observed.now)
    long = {slot for slot, since in waiting.items() if observed.now - since > timeouts.registration_wait_seconds}
    absent = frozenset(long - runtime.registered)
    mine = migrations.is_ours(dataflow, runtime)
    if mine and late and target is not None:
        return DesiredWorkers(target.workers, target.generation, full - target.workers, waiting, absent)
    unregistered = full - (taken - absent) - runtime.registered
    spare = unregistered if long & runtime.registered else unregistered & long
    workers = full - spare or full
    spare = full - workers
    if not mine or target is None:
        return DesiredWorkers(workers, first, spare, waiting, absent)
    fresh = target.workers != workers or migrations.should_retry(runtime, observed.now, timeouts)
    last = first + REVISIONS - 1
    ended = fresh and target.generation == last
    return DesiredWorkers(workers, min(target.generation + fresh, last), spare, waiting, absent, ended)


def _waiting(
    full: frozenset[int], taken: frozenset[int], runtime: ObservedRuntime, before: Status, now: float
) -> Mapping[int, float]:
    """Since when each slot has been outside the target, or in it without an executor and without bins."""
    without = (full - taken) | (full - runtime.registered - runtime.holding)
    return {slot: before.waiting.get(slot, now) for slot in sorted(without)}


def _continued(observed: ObservedState, before: Status) -> Mapping[int, float]:
    """The clocks continue while a driver temporarily does not answer; with a new driver, all executors register again."""
    driver = observed.driver
    silent = observed.runtime is None and driver is not None and driver.deleting_since is None
    return before.waiting if silent else {}
