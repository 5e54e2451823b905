"""The rows of the decision, tried from the top; see the package's docstring."""

from __future__ import annotations

from dataclasses import dataclass, replace

from binshift_operator import phases
from binshift_operator.decide import stopping, upkeep, workers
from binshift_operator.decide.limits import Limits
from binshift_operator.decide.step import Step
from binshift_operator.model.actions import Action, CreateKeys
from binshift_operator.model.names import Child
from binshift_operator.model.reasons import AtRest, Awaited, Trouble
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status
from binshift_operator.model.world import ClaimState, Found, RunState, World

PATIENCE = 20.0
"""How many times something is looked at while it is awaited twice as long."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, what to say, and when to look again at the latest (seconds; an event may come first)."""

    actions: tuple[Action, ...]
    status: Status
    look_again_seconds: float

    @property
    def rests(self) -> bool:
        """Whether there is nothing to do, and nothing is awaited."""
        return not self.actions and self.status.awaiting is None


def decide(dataflow: Dataflow, world: World, before: Status, limits: Limits) -> Decision:
    """The next actions for a dataflow, in order, and its new status."""
    if dataflow.deleting:
        return Decision((), before, limits.rest_seconds)
    if dataflow.unread:
        step, actions = _invalid(world), tuple[Action, ...]()
    else:
        step = _step(dataflow, world, before, limits)
        actions = upkeep.freed(world, limits) + step.actions
        actions += upkeep.retried(world, actions)
    said = phases.Said(
        reason=step.reason,
        message=step.message,
        at_rest=isinstance(step.reason, AtRest),
        realised=step.realised,
        settling=step.settling,
        timed_out=step.timed_out,
        trouble=step.trouble,
        stale=bool(stopping.stale(dataflow, world)) and not world.invalid and step.reason is not Awaited.SPEC,
        finished=step.finished,
        waiting=step.waiting,
        moving=step.moving,
    )
    status = phases.status(dataflow, world, before, said, patience(limits))
    return Decision(actions, status, _pause(step, status, world.now, limits))


def patience(limits: Limits) -> phases.Patience:
    """What the status has to know of the limits."""
    return phases.Patience(
        limits.fresh_seconds,
        limits.unreachable_seconds,
        limits.driver_start_seconds,
        limits.pods_wait_seconds,
        limits.epoch_seconds_max,
        limits.unplaced_seconds,
    )


def _pause(step: Step, status: Status, now: float, limits: Limits) -> float:
    """Until the next look: the longer something is awaited, the less it is asked for; events wake the operator besides."""
    if isinstance(step.reason, AtRest):
        return limits.rest_seconds
    waited = 0.0 if status.awaiting is None else now - status.awaiting.since
    return min(max(waited / PATIENCE, limits.busy_seconds), limits.rest_seconds)


def _step(dataflow: Dataflow, world: World, before: Status, limits: Limits) -> Step:
    taken = [child for child in Child if world.children[child].found is Found.FOREIGN]
    if taken:
        message = " ".join(_taken(dataflow, child) for child in taken)
        return Step((), Awaited.NAMES, message, trouble=(Trouble.NAME_TAKEN, message))
    unusable, homeless = _unusable(dataflow, world), _homeless(world)
    finished = before.has_finished(dataflow.generation, dataflow.restart_hash)
    rests = dataflow.suspend or finished
    if unusable is not None and world.driver is None and not rests:
        return Step(upkeep.plain(world), Awaited.CHECKPOINT, unusable[1], trouble=unusable)
    if homeless is not None and world.driver is None and not rests:
        return Step(upkeep.plain(world), Awaited.SPEC, homeless[1], trouble=homeless)
    if world.keys_hash is None:
        return _keyless(dataflow, world)
    if dataflow.suspend:
        return stopping.suspended(world, before, limits)
    if finished:
        return stopping.finished(world, before, limits)
    if world.invalid:
        return _invalid(world)
    runtime, driver = world.runtime, world.driver
    stopped = driver is not None and runtime is not None and runtime.state is RunState.STOPPED
    there = driver is not None and driver.going_since is None
    ended = there and runtime is not None and runtime.state is RunState.FINISHED
    # It ended for an earlier spec, and was edited since: what is still there is that one's.
    earlier = ended and before.finished_generation != 0
    if stopping.stale(dataflow, world) or stopped or earlier:
        if homeless is not None and there and not stopped:
            return replace(_invalid(world), trouble=homeless)
        return stopping.restarted(dataflow, world, before, limits)
    if ended:
        return stopping.remembered(world)
    step = workers.run(dataflow, world, before, limits)
    return replace(step, trouble=step.trouble or unusable or homeless)


def _taken(dataflow: Dataflow, child: Child) -> str:
    """What to do about another's object of a child's name; deleting it is the last thing to propose."""
    name = dataflow.key.child(child)
    use = f", or set spec.serviceAccountName: {name} to use yours" if child is Child.SERVICE_ACCOUNT else ""
    return (
        f"There is a {child.kind} named {name} that this dataflow did not make, and it needs the name for its own. Rename the "
        f"dataflow{use}. Do not delete the {child.kind} unless you know that nothing uses it."
    )


def _unusable(dataflow: Dataflow, world: World) -> tuple[Trouble, str] | None:
    """Why the checkpoint cannot be used."""
    claim = dataflow.checkpoint.claim
    if world.claim is ClaimState.ABSENT:
        return Trouble.CHECKPOINT_NOT_FOUND, f"there is no PersistentVolumeClaim {claim}: create it"
    if world.claim is ClaimState.NOT_SHARED:
        return Trouble.CHECKPOINT_NOT_SHARED, (
            f"PersistentVolumeClaim {claim} is not ReadWriteMany: driver and executors on several nodes all need it"
        )
    if world.credentials_missing:
        return Trouble.CREDENTIALS_MISSING, f"there is no Secret {world.credentials_missing}: create it"
    return None


def _homeless(world: World) -> tuple[Trouble, str] | None:
    """Why no pod can be made that the API server would take: it takes a StatefulSet all the same, and no trial finds out."""
    if world.account_missing:
        why = f"there is no ServiceAccount {world.account_missing}: create it, or put spec.serviceAccountName right"
        return Trouble.SERVICE_ACCOUNT_NOT_FOUND, why
    return None


def _invalid(world: World) -> Step:
    """What the spec asks for cannot be: what runs goes on as it is, and nothing new is begun."""
    if world.runtime is None and world.driver is not None:
        return Step(upkeep.plain(world), Awaited.RUNTIME, f"the driver does not answer: {world.unreachable}")
    message = "the spec has to be put right; what runs goes on as it is"
    return Step(upkeep.plain(world), Awaited.SPEC, message)


def _keyless(dataflow: Dataflow, world: World) -> Step:
    """Without the Secret no template can be rendered; a damaged one is a person's, as nothing is written over a Secret."""
    name = dataflow.key.child(Child.KEYS)
    match world.children[Child.KEYS].found:
        case Found.ABSENT:
            made = (*upkeep.plain(world), CreateKeys())
            return Step(made, Awaited.SECRET_LOST if world.pods else Awaited.CHILDREN, f"Secret {name} is created")
        case Found.GOING:
            return Step(upkeep.plain(world), Awaited.CHILDREN, f"Secret {name} is being deleted, then made anew")
        case _:
            message = f"Secret {name} lacks a key: delete it, and it is made anew"
            return Step((), Awaited.SECRET_LOST, message, trouble=(Trouble.SECRET_LOST, message))
