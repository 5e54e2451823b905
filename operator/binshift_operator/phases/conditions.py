"""The conditions: what is True of a dataflow, and why.

A condition's time changes with its status only, so that it says since when; reason and message follow what is.
"""

from __future__ import annotations

from dataclasses import dataclass

from binshift_operator.model.reasons import AtRest, Awaited, Trouble
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Condition, ConditionType, MigrationShown, Numbers, Status, shortened
from binshift_operator.model.world import Pod, RunState, RuntimeSeen, World
from binshift_operator.phases import hanging, pod_trouble, versions
from binshift_operator.phases.judged import Judged
from binshift_operator.phases.said import Said


@dataclass(frozen=True, slots=True)
class Patience:
    """What conditions know of the operator's patience, in seconds; see `decide.Limits`."""

    fresh_seconds: float = 30.0
    unreachable_seconds: float = 120.0
    driver_start_seconds: float = 300.0
    pods_wait_seconds: float = 30.0
    epoch_seconds_max: float = 300.0
    unplaced_seconds: float = 180.0


def conditions(
    dataflow: Dataflow,
    world: World,
    before: Status,
    said: Said,
    migration: MigrationShown | None,
    patience: Patience,
    numbers: Numbers,
) -> tuple[Condition, ...]:
    """All of them, each with the time since when its status holds; ``numbers``: those that messages speak of."""
    judged = {
        ConditionType.READY: ready(dataflow, world, before, said, patience, numbers),
        ConditionType.PROGRESSING: Judged(not said.at_rest, said.reason.value, said.message),
        ConditionType.MIGRATING: migrating(dataflow, world, migration),
        ConditionType.DEGRADED: degraded(dataflow, world, before, said, patience),
        ConditionType.UPDATE_PENDING: versions.judged(world, before),
    }
    return tuple(_dated(kind, each, dataflow.generation, before, world.now) for kind, each in judged.items())


def _dated(kind: ConditionType, judged: Judged, generation: int, before: Status, now: float) -> Condition:
    last = before.condition(kind)
    since = last.since if last is not None and last.status is judged.status else now
    return Condition(kind, judged.status, judged.reason, shortened(judged.message), generation, since)


def ready(dataflow: Dataflow, world: World, before: Status, said: Said, patience: Patience, numbers: Numbers) -> Judged:
    """Whether epochs are committed, or could be if there were input."""
    runtime, driver = world.runtime, world.driver
    if dataflow.suspend:
        return Judged(False, "Suspended", "the stream is suspended")
    if said.reason in (AtRest.FINISHED, Awaited.FINISHING):
        return Judged(False, "Finished", "the program has ended by itself")
    if runtime is not None:
        return _running(runtime, world.now, patience, numbers)
    if driver is None:
        return Judged(False, "NoDriver", "there is no driver's pod yet")
    last = before.condition(ConditionType.READY)
    silent = before.awaiting if before.awaiting is not None and before.awaiting.reason == Awaited.RUNTIME else None
    lately = silent is None or world.now - silent.since <= patience.fresh_seconds
    if driver.ready and last is not None and last.status and lately:
        return Judged(True, last.reason, last.message)
    reason = "ControlUnreachable" if _should_answer(driver, world.now, patience) else "Starting"
    return Judged(False, reason, f"the driver does not answer: {world.unreachable}")


def _should_answer(driver: Pod, now: float, patience: Patience) -> bool:
    """Whether a driver's pod is ready, or was made so long ago that it should be: a node that is gone makes it unready."""
    return driver.ready or (driver.born is not None and now - driver.born > patience.driver_start_seconds)


def _running(runtime: RuntimeSeen, now: float, patience: Patience, numbers: Numbers) -> Judged:
    if runtime.state is not RunState.RUNNING:
        return Judged(False, runtime.state.value, runtime.reason or f"the program is {runtime.state.value.lower()}")
    hangs = hanging.told(runtime, patience.epoch_seconds_max)
    fresh = runtime.committed_at is not None and now - runtime.committed_at <= patience.fresh_seconds
    if fresh and not hangs:
        return Judged(True, "EpochCommitted", f"Epochs are committed; {_newest(numbers)}")
    away = runtime.holding - runtime.registered
    if away:
        named = ", ".join(map(str, sorted(away)[:8]))
        return Judged(False, "WorkersAway", f"epoch {runtime.epoch + 1} waits for workers {named}")
    if not runtime.registered:
        return Judged(False, "NoWorkers", "no worker is registered with Spark")
    if hangs:
        return Judged(False, Trouble.EPOCH_HANGS.value, hangs)
    if runtime.under_way is not None:
        return Judged(True, "EpochRunning", f"epoch {runtime.under_way.epoch} is under way")
    if runtime.epoch < 0:
        return Judged(True, "Idle", "the query runs, and has had no input yet")
    holding = len(runtime.holding)
    who = "executor that holds state is" if holding == 1 else f"{holding} executors that hold state are"
    return Judged(True, "Idle", f"No new input; {_newest(numbers)}. The {who} registered")


def _newest(numbers: Numbers) -> str:
    """The newest epoch, as the status has it."""
    if numbers.committed_at is None:
        return f"the newest is {numbers.epoch}"
    minutes, seconds = divmod(int(numbers.committed_at) % 86_400, 60)
    return f"the newest is {numbers.epoch}, committed at {minutes // 60:02}:{minutes % 60:02}:{seconds:02}Z"


def migrating(dataflow: Dataflow, world: World, migration: MigrationShown | None) -> Judged:
    """Whether bins are moving."""
    if migration is None or migration.ended or dataflow.suspend:
        return Judged(False, "Idle", "no bins are moving")
    if world.runtime is None or world.runtime.state is not RunState.RUNNING:
        return Judged(None, "NotRunning", "bins were moving when the driver was last heard of")
    moved = (
        "" if migration.bins_total is None else f", {migration.bins_moved or 0} of {migration.bins_total} bins moved"
    )
    return Judged(True, migration.phase.capitalize(), f"{migration.strategy} migration is {migration.phase}{moved}")


def degraded(dataflow: Dataflow, world: World, before: Status, said: Said, patience: Patience) -> Judged:
    """Whether a person must act, and upon what first."""
    found = [said.trouble] if said.trouble is not None else []
    found += [(Trouble.INVALID_SPEC, world.invalid)] if world.invalid else []
    found += [(Trouble.TWO_OPERATORS, world.rivals)] if world.rivals else []
    found += [(Trouble.REFUSED, f"{what}: {why}") for what, why in world.refusals.items()]
    found += _of_lacking(world, patience)
    found += _of_runtime(world.runtime)
    hangs = hanging.told(world.runtime, patience.epoch_seconds_max)
    found += [(Trouble.EPOCH_HANGS, hangs)] if hangs else []
    waits = pod_trouble.Waits(patience.pods_wait_seconds, patience.unplaced_seconds)
    found += pod_trouble.found(dataflow, world, waits)
    found += _of_silence(world, before, patience)
    if not found:
        return Judged(False, "AsExpected", "nothing needs a person")
    order = list(Trouble)
    trouble, message = min(found, key=lambda each: order.index(each[0]))
    return Judged(True, trouble.value, message)


def _of_lacking(world: World, patience: Patience) -> list[tuple[Trouble, str]]:
    """Pods that cannot even be made, as a quota, a policy or a webhook forbids them: there is none to look at."""
    return [
        (
            Trouble.PODS_NOT_CREATED,
            f"{child.value}: {lacking.count} pods are not created: {lacking.why or 'its events may say why'}",
        )
        for child, lacking in world.lacking.items()
        if world.now - lacking.since > patience.pods_wait_seconds
    ]


def _of_silence(world: World, before: Status, patience: Patience) -> list[tuple[Trouble, str]]:
    driver, awaiting = world.driver, before.awaiting
    if world.runtime is not None or driver is None or awaiting is None or awaiting.reason != Awaited.RUNTIME:
        return []
    silent = world.now - awaiting.since > patience.unreachable_seconds
    if not (silent and _should_answer(driver, world.now, patience)):
        return []
    how = "ready" if driver.ready else "not ready, as when its node is lost"
    minutes = int(world.now - awaiting.since) // 60
    since = f" for {minutes} min" if minutes else ""
    message = (
        f"The operator has not reached the control API of pod {driver.name} ({how}){since}: {world.unreachable}. The stream may "
        "well be running. Look for a NetworkPolicy that keeps the operator out, or a driver without CPU: "
        f"kubectl top pod {driver.name}"
    )
    return [(Trouble.CONTROL_UNREACHABLE, message)]


def _of_runtime(runtime: RuntimeSeen | None) -> list[tuple[Trouble, str]]:
    if runtime is not None and runtime.state is RunState.FENCED:
        return [(Trouble.FENCED, runtime.reason or "another run owns the checkpoint")]
    if runtime is not None and runtime.state is RunState.FAILED:
        return [(Trouble.PROGRAM_FAILED, runtime.reason or "the program has ended with an error")]
    if runtime is not None and runtime.state is RunState.LOADING and runtime.failures:
        return [(Trouble.PROGRAM_FAILED, runtime.reason)]  # it is tried again after it failed
    return []
