"""The usual case, a dataflow that runs: how many executors there are, what the runtime is asked for, what is awaited.

The decision itself is `binshift.rescale`'s. Here it is given what is, and what it says is turned into actions on
StatefulSets, whose ordinals are the slots. Three things are added:

- *Who cannot come.* If new executors do not register in time, those that have are used without the others: as many slots from
  0 up as are there. That is another target of the same generation of the object, hence the revisions (`world.REVISIONS`).
- *Who is there already.* On resume, executors are started for all slots that held bins when last seen, wanted or not: the
  first epoch needs them. The runtime then says who holds what, and those beyond the spec are drained like any others.
- *What takes too long, or fails.* See `migrations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from binshift import rescale
from binshift.model import Worker
from binshift_operator.decide import migrations, upkeep
from binshift_operator.decide.limits import Limits
from binshift_operator.decide.step import Step
from binshift_operator.model.actions import Action, PutTarget
from binshift_operator.model.names import Child
from binshift_operator.model.reasons import AtRest, Awaited
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Settling, Status
from binshift_operator.model.world import REVISIONS, Found, RunState, RuntimeSeen, World
from binshift_operator.phases.holding import holding_slots


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for now: slots ``0 .. count-1`` as target ``generation``; ``missing`` slots are not waited for."""

    count: int
    generation: int
    missing: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Said:
    """What `binshift.rescale` says, in the operator's terms; ``replicas``: how many executors there should be now."""

    replicas: int
    shrink: bool = False
    put: tuple[PutTarget, ...] = ()
    awaited: Awaited | None = None
    about: frozenset[int] = frozenset()


def run(dataflow: Dataflow, world: World, before: Status, limits: Limits) -> Step:
    """Bring a dataflow that should run to its spec's replicas."""
    runtime = world.runtime
    if runtime is not None and runtime.state is RunState.FENCED:
        return _fenced(world, dataflow)
    if runtime is not None and (runtime.state is not RunState.RUNNING or runtime.route_version is None):
        runtime = None
    settling = _settling(dataflow, runtime, before)
    late = migrations.timed_out(dataflow, runtime, before, world.now)
    wanted = _wanted(dataflow, runtime, before, world.now, limits, late)
    said = _said(dataflow, world, before, runtime, wanted, settling)
    shrink = said.shrink and not late
    seen = world.children[Child.EXECUTORS]
    actions: tuple[Action, ...] = upkeep.plain(world)
    if shrink:
        actions += upkeep.stateful(world, {Child.DRIVER: 1})
        actions += (upkeep.applied(Child.EXECUTORS, seen, dataflow.replicas, exactly=True),)
    else:
        actions += upkeep.stateful(world, {Child.EXECUTORS: said.replicas, Child.DRIVER: 1})
    actions += migrations.cancelled(dataflow, runtime, before) if late else said.put
    reason, message = _reason(dataflow, world, said, wanted, bool(actions))
    return Step(
        actions,
        reason,
        message,
        realised=reason is AtRest.SETTLED,
        settling=settling,
        timed_out=late,
        trouble=migrations.trouble(dataflow, runtime, late),
    )


def _fenced(world: World, dataflow: Dataflow) -> Step:
    replicas = max(dataflow.replicas, world.children[Child.EXECUTORS].replicas)
    actions = upkeep.plain(world) + upkeep.stateful(world, {Child.EXECUTORS: replicas, Child.DRIVER: 1})
    return Step(actions, AtRest.FENCED, "another run owns the checkpoint")


def _settling(dataflow: Dataflow, runtime: RuntimeSeen | None, before: Status) -> Settling | None:
    """Since which epoch our target has been settled; None while it is not, or nothing is known."""
    if runtime is None or runtime.target is None or not runtime.target.settled:
        return None
    if runtime.target.owner != dataflow.key.uid:
        return None  # an earlier dataflow's, whose generations say nothing of ours
    last = before.settling
    if last is not None and last.generation == runtime.target.generation and last.epoch <= runtime.epoch:
        return last
    return Settling(runtime.target.generation, runtime.epoch)


def _wanted(
    dataflow: Dataflow, runtime: RuntimeSeen | None, before: Status, now: float, limits: Limits, late: bool
) -> Wanted:
    first, full = dataflow.generation * REVISIONS, frozenset(range(dataflow.replicas))
    target = None if runtime is None else runtime.target
    if runtime is None or target is None:
        there = full if runtime is None else runtime.registered
    else:
        there = runtime.registered | target.workers
    mine = runtime is not None and migrations.is_ours(dataflow, runtime)
    if mine and late and target is not None:
        return Wanted(len(target.workers), target.generation, full - target.workers)
    count = dataflow.replicas
    if full - there and _waited(dataflow, before, now) > limits.registration_wait_seconds:
        count = _prefix(there, dataflow.replicas) or count
    missing = full - frozenset(range(count))
    if not mine or target is None or runtime is None:
        return Wanted(count, first, missing)
    same = target.workers == frozenset(range(count))
    fresh = not same or migrations.again(runtime, now, limits)
    return Wanted(count, min(target.generation + fresh, first + REVISIONS - 1), missing)


def _waited(dataflow: Dataflow, before: Status, now: float) -> float:
    """Seconds for which this generation's executors have been awaited."""
    awaiting = before.awaiting
    if awaiting is None or awaiting.reason != Awaited.REGISTRATION or before.observed_generation != dataflow.generation:
        return 0.0
    return now - awaiting.since


def _prefix(there: frozenset[int], most: int) -> int:
    """How many slots from 0 up are there without a gap."""
    return next((slot for slot in range(most) if slot not in there), most)


def _said(
    dataflow: Dataflow,
    world: World,
    before: Status,
    runtime: RuntimeSeen | None,
    wanted: Wanted,
    settling: Settling | None,
) -> Said:
    seen = world.children[Child.EXECUTORS]
    processes = seen.replicas if seen.found is not Found.ABSENT else 0
    shown = min(processes, wanted.count) if wanted.missing else processes
    actions = rescale.decide(
        rescale.Observed(_workers(range(shown)), None if runtime is None else _known(runtime, settling)),
        rescale.Desired(dataflow.key.uid, wanted.generation, wanted.count, takes_over=True),
    )
    replicas = max(processes, dataflow.replicas, holding_slots(world.runtime, before) if runtime is None else 0)
    said = Said(replicas)
    for action in actions:
        match action:
            case rescale.StartWorkers(workers):
                said = Said(max(replicas, 1 + max(workers)), awaited=Awaited.CHILDREN, about=frozenset(workers))
            case rescale.StopWorkers(workers):
                said = Said(dataflow.replicas, shrink=True, awaited=Awaited.PODS_ENDING, about=frozenset(workers))
            case rescale.PutTarget(target):
                put = PutTarget(target.generation, tuple(sorted(target.workers)))
                said = Said(said.replicas, put=(put,), awaited=Awaited.TARGET, about=frozenset(target.workers))
            case rescale.Wait(awaiting, workers):
                said = Said(said.replicas, awaited=Awaited(awaiting.value), about=frozenset(workers))
            case _:
                assert_never(action)
    return said


def _known(runtime: RuntimeSeen, settling: Settling | None) -> rescale.Runtime:
    target = runtime.target
    return rescale.Runtime(
        None if target is None else rescale.Target(target.owner, target.generation, _workers(target.workers)),
        registered=_workers(runtime.registered),
        holding=_workers(runtime.holding),
        settled=target is not None and target.settled,
        held_epochs=0 if settling is None else runtime.epoch - settling.epoch,
    )


def _workers(slots: range | frozenset[int]) -> rescale.Workers:
    return frozenset(map(Worker, slots))


def _reason(dataflow: Dataflow, world: World, said: Said, wanted: Wanted, acts: bool) -> tuple[Awaited | AtRest, str]:
    """What is awaited, in order of what comes first."""
    runtime, awaited = world.runtime, said.awaited
    if awaited is Awaited.RUNTIME and runtime is not None and runtime.state is RunState.RUNNING:
        return Awaited.FIRST_EPOCH, "the query runs, and has not committed an epoch yet"
    if awaited is Awaited.RUNTIME:
        return awaited, runtime.reason if runtime is not None else f"the driver does not answer: {world.unreachable}"
    if wanted.missing and awaited in (None, Awaited.MIGRATION, Awaited.TARGET):
        return Awaited.REGISTRATION, f"{wanted.count} workers are used; {_listed(wanted.missing)} have not registered"
    if awaited is not None:
        return awaited, MESSAGES[awaited].format(_listed(said.about))
    away = frozenset(range(dataflow.replicas)) - (runtime.registered if runtime is not None else frozenset())
    if away:
        return Awaited.REGISTRATION, MESSAGES[Awaited.REGISTRATION].format(_listed(away))
    if any(pod.slot >= dataflow.replicas for pod in world.executors):
        return Awaited.PODS_ENDING, "pods that hold no bins any more are ending"
    if acts or upkeep.ending(world, Child):
        return Awaited.CHILDREN, "children are put in place"
    return AtRest.SETTLED, f"{dataflow.replicas} workers share the bins"


MESSAGES = {
    Awaited.CHILDREN: "executors {} are started",
    Awaited.OTHER_OWNER: "the target belongs to another owner",
    Awaited.GENERATION: "the runtime has a target of a newer generation; the spec is read again",
    Awaited.REGISTRATION: "workers {} have not registered with Spark",
    Awaited.TARGET: "the runtime is asked to share the bins among workers {}",
    Awaited.MIGRATION: "bins are moving",
    Awaited.HOLD: "one more epoch, before workers {} may end",
    Awaited.BINS: "workers {} still hold bins",
    Awaited.PODS_ENDING: "the pods of workers {} end: they hold no bins",
}
"""What is awaited, for people; the braces are the slots it is about."""


def _listed(slots: frozenset[int]) -> str:
    """Slots for people, no more than a few.

    >>> _listed(frozenset({3, 1})), _listed(frozenset(range(100)))
    ('1, 3', '0, 1, 2, 3, 4, 5, 6, 7 and 92 more')
    """
    named = ", ".join(map(str, sorted(slots)[:8]))
    return named if len(slots) <= 8 else f"{named} and {len(slots) - 8} more"
