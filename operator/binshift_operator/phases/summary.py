"""Puts the status together: numbers as they are, what must be remembered, conditions, and one word for people."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from binshift_operator.model.reasons import AtRest, Awaited
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import (
    HISTORY_MAX,
    REASON_CHARACTERS_MAX,
    Awaiting,
    MigrationShown,
    Numbers,
    Phase,
    Status,
    shortened,
)
from binshift_operator.model.world import RunState, RuntimeSeen, World
from binshift_operator.phases.conditions import Patience, conditions
from binshift_operator.phases.holding import holding_slots
from binshift_operator.phases.said import Said

NUMBERS_SECONDS: Final = 60.0
"""How old the numbers of a status get in which nothing else changes: each write goes to everybody who watches."""


def status(dataflow: Dataflow, world: World, before: Status, said: Said, patience: Patience) -> Status:
    """The new status; as it was, if nothing has changed but numbers, and these not for long."""
    kept = _status(dataflow, world, before, said, patience, before.numbers)
    fresh = _numbers(world.runtime, before)
    last, now = before.numbers.committed_at, fresh.committed_at
    recent = last is not None and now is not None and 0.0 <= now - last < NUMBERS_SECONDS
    return kept if kept == before and recent else _status(dataflow, world, before, said, patience, fresh)


def _numbers(runtime: RuntimeSeen | None, before: Status) -> Numbers:
    last = before.numbers
    if runtime is None or runtime.epoch < 0:
        return replace(last, latency_p99=None)
    at = last.committed_at if runtime.committed_at is None and runtime.epoch == last.epoch else runtime.committed_at
    return Numbers(runtime.epoch, at, runtime.latency_p99 if runtime.state is RunState.RUNNING else None)


def _status(
    dataflow: Dataflow, world: World, before: Status, said: Said, patience: Patience, numbers: Numbers
) -> Status:
    runtime = world.runtime
    known = runtime if runtime is not None and runtime.state is RunState.RUNNING else None
    migration = _migration(runtime, before)
    finished = _finished(said, dataflow, world, before)
    return Status(
        observed_generation=dataflow.generation,
        settled_generation=dataflow.generation if said.realised else before.settled_generation,
        replicas=len(world.executors),
        ready_replicas=len(known.registered) if known is not None else 0,
        phase=_phase(dataflow, world, said),
        numbers=numbers,
        route_version=before.route_version if runtime is None else runtime.route_version or before.route_version,
        version=before.version if runtime is None else runtime.version,
        awaiting=_awaiting(said, before, dataflow, world.now),
        settling=said.settling if known is not None and known.route_version is not None else before.settling,
        holding_slots=holding_slots(runtime, before),
        timed_out_generation=_timed_out(said, known, dataflow, before),
        finished_generation=finished[0],
        finished_spec=finished[1],
        migration=migration,
        history=_history(migration, before),
        conditions=conditions(dataflow, world, before, said, migration, patience, numbers),
        waiting=said.waiting,
        moving=said.moving,
    )


def _awaiting(said: Said, before: Status, dataflow: Dataflow, now: float) -> Awaiting | None:
    """The clock begins anew with another reason and with another generation, which neither ends a silence nor a stop."""
    if said.at_rest:
        return None
    last = before.awaiting
    same = last is not None and last.reason == said.reason and before.observed_generation == dataflow.generation
    lasting = last is not None and last.reason == said.reason and said.reason in (Awaited.STOPPING, Awaited.RUNTIME)
    return last if same or lasting else Awaiting(said.reason.value, now)


def _timed_out(said: Said, known: RuntimeSeen | None, dataflow: Dataflow, before: Status) -> int:
    if said.timed_out:
        return dataflow.generation
    over = known is not None and known.route_version is not None
    return 0 if over or before.timed_out_generation != dataflow.generation else before.timed_out_generation


def _finished(said: Said, dataflow: Dataflow, world: World, before: Status) -> tuple[int, str]:
    """Generation and spec for which the program has ended by itself; an earlier one is remembered until its driver is gone."""
    if said.finished:
        return dataflow.generation, dataflow.restart_hash
    ended = before.has_finished(dataflow.generation, dataflow.restart_hash)
    known = before.finished_generation, dataflow.restart_hash if ended else before.finished_spec
    driver, runtime = world.driver, world.runtime
    gone = (
        driver is None
        or driver.going_since is not None
        or (runtime is not None and runtime.state is not RunState.FINISHED)
    )
    # To suspend a dataflow and to resume it is to run it again.
    over = dataflow.suspend or not ended
    return (0, "") if over and gone else known


def _migration(runtime: RuntimeSeen | None, before: Status) -> MigrationShown | None:
    """The newest one; of one that a new driver goes on with, the generation that is known."""
    last, target = before.migration, None if runtime is None else runtime.target
    if runtime is None or runtime.migration is None:
        if last is None or last.ended or target is None or not target.settled:
            return last  # a driver that starts anew knows of none yet: the one that ran is not over for that
        return replace(last, phase="settled", reason="it was done when the driver started anew")
    shown = runtime.migration
    if shown.phase == "settled" and not shown.bins_total and (last is None or last.ended):
        return last  # nothing had to move, as when a worker without bins is drained
    if target is not None and shown.generation == 0 and runtime.migration_workers == target.workers:
        shown = replace(shown, generation=target.generation)
    return replace(shown, reason=shortened(shown.reason, REASON_CHARACTERS_MAX))


def _history(migration: MigrationShown | None, before: Status) -> tuple[MigrationShown, ...]:
    """Ended migrations, newest first; one that was superseded is kept as it was last seen."""
    past = list(before.history)
    ended = [migration] if migration is not None and migration.ended else []
    for each in ended:
        past = [old for old in past if (old.id, old.started_at) != (each.id, each.started_at)]
        past.insert(0, each)
    return tuple(past[:HISTORY_MAX])


def _phase(dataflow: Dataflow, world: World, said: Said) -> Phase:
    runtime = world.runtime
    if dataflow.suspend:
        rests = said.reason is AtRest.SUSPENDED or (bool(dataflow.unread) and not world.pods)
        return Phase.SUSPENDED if rests else Phase.SUSPENDING
    if said.reason in (AtRest.FINISHED, Awaited.FINISHING):
        return Phase.FINISHED
    if said.stale or said.reason in (Awaited.STOPPING, Awaited.RESTARTING, Awaited.SECRET_LOST):
        return Phase.RESTARTING
    if runtime is not None and runtime.state is RunState.FINISHED:
        return Phase.FINISHED
    if runtime is not None and runtime.state in (RunState.FAILED, RunState.FENCED):
        return Phase.FAILED
    if world.driver is None:
        return Phase.PENDING
    if runtime is None or runtime.state is not RunState.RUNNING:
        return Phase.STARTING
    calm = said.at_rest or said.reason in (Awaited.FIRST_EPOCH, Awaited.SPEC)
    return Phase.RUNNING if calm else Phase.RESCALING
