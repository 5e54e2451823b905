"""The transitions: the effect of one event on a migration, and the actions that the caller must carry out.

`advance` is the only way a migration changes. It is total: every event is allowed at any time, and one that is too late (for a
step already decided, a copy restarted since, or a migration that has ended) changes nothing. Only the driver's own events are
checked for their order: epochs start, and are recorded or abandoned, one after the other.

One rule makes it safe: *a step in a running epoch's route belongs to that epoch*. Until the epoch is recorded or abandoned,
neither cancellation nor failure affects the step; all other steps may be dropped at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, assert_never

import numpy as np

from binshift.invariants import invariant
from binshift.migration.events import (
    Action,
    Cancel,
    Copy,
    CopyAt,
    CopyFailed,
    DropCopies,
    EpochAbandoned,
    EpochRecorded,
    EpochStarting,
    Event,
    Flip,
    Paced,
    Retire,
    RoundReported,
    Started,
    StepNumber,
    Warm,
    WorkerLost,
    WorkersWarm,
)
from binshift.migration.state import (
    Copying,
    CopyState,
    Flipping,
    MigrationState,
    Phase,
    RetainedCopy,
    Termination,
    after_round,
    bins_by_worker,
    kept_without,
)
from binshift.model import Epoch, Plan, Worker

Outcome: TypeAlias = tuple[MigrationState, tuple[Action, ...]]


def advance(state: MigrationState, event: Event) -> Outcome:
    """The state after ``event``, and the actions to carry out, in this order.

    Raises:
        InvariantViolated: epochs are out of order: one started while another ran, or was recorded twice.
    """
    if state.ended is not None:
        return state, ()
    state, actions = _react(state, event)
    state, more = _drop_waiting(state) if state.ending else _begin_steps(state)
    return _end_if_done(state), actions + more


def _react(state: MigrationState, event: Event) -> Outcome:
    match event:
        case Started():
            cold = state.plan.cold - state.warm
            wanted = (Warm(cold),) if cold and not state.started else ()
            return replace(state, started=True), wanted
        case WorkersWarm(workers):
            return replace(state, warm=state.warm | (workers & state.plan.cold)), ()
        case CopyAt():
            return _copy_at(state, event), ()
        case CopyFailed():
            return _copy_failed(state, event)
        case RoundReported():
            return after_round(state), ()
        case EpochStarting(epoch):
            return _epoch_starting(state, epoch)
        case EpochRecorded(epoch):
            return _epoch_recorded(state, epoch)
        case EpochAbandoned(epoch):
            return _epoch_abandoned(state, epoch)
        case WorkerLost(worker):
            return _worker_lost(state, worker), ()
        case Cancel(reason):
            return _ending(state, Phase.CANCELLED, reason), ()
        case Paced(limits):
            return replace(state, limits=limits), ()
        case _:
            assert_never(event)


def _ending(state: MigrationState, phase: Phase, reason: str) -> MigrationState:
    """Set the reason of the end; only the first one counts."""
    return state if state.ending else replace(state, ending=Termination(phase, reason))


def _copy_at(state: MigrationState, event: CopyAt) -> MigrationState:
    def arrived(copy: CopyState) -> CopyState:
        # Reports of parallel jobs may arrive out of order; a copy itself never goes back.
        newest = event.epoch if copy.epoch is None else max(copy.epoch, event.epoch)
        return replace(copy, epoch=newest)

    return _with_copy(state, event, arrived)


def _copy_failed(state: MigrationState, event: CopyFailed) -> Outcome:
    found = next((step for step in state.inflight if step.step == event.step), None)
    if found is None or not any(_is_copy(copy, event) for copy in found.copies):
        return state, ()
    if isinstance(found, Flipping):
        return _with_copy(state, event, lambda copy: replace(copy, lost=event)), ()
    return _copy_again(state, event)


def _copy_again(state: MigrationState, event: CopyFailed) -> Outcome:
    """Restart a failed copy, or fail the migration if that cannot help."""
    to = f"copying step {event.step} to worker {event.destination}"
    if not event.retryable:
        return _ending(state, Phase.FAILED, f"{to} failed: {event.reason}"), ()
    if event.attempt >= state.limits.copy_retries_max:
        attempts = event.attempt + 1
        return _ending(state, Phase.FAILED, f"{to} failed {attempts} times, the last time: {event.reason}"), ()
    state = _with_copy(state, event, lambda copy: CopyState(copy.destination, copy.attempt + 1))
    bins = state.plan.moves(event.step).bins_to(event.destination)
    return state, (Copy(event.step, event.destination, bins, event.attempt + 1),)


def _is_copy(copy: CopyState, event: CopyAt | CopyFailed) -> bool:
    return (copy.destination, copy.attempt) == (event.destination, event.attempt)


def _with_copy(
    state: MigrationState, event: CopyAt | CopyFailed, change: Callable[[CopyState], CopyState]
) -> MigrationState:
    """Change the copy that the event is about; nothing, if its attempt or step is over."""
    inflight = tuple(
        step
        if step.step != event.step
        else replace(step, copies=tuple(change(copy) if _is_copy(copy, event) else copy for copy in step.copies))
        for step in state.inflight
    )
    return replace(state, inflight=inflight)


def _epoch_starting(state: MigrationState, epoch: Epoch) -> Outcome:
    invariant(state.running is None, f"epoch {epoch} starts while {state.running} runs")
    invariant(epoch > state.recorded, f"epoch {epoch} starts after {state.recorded} was recorded")
    chosen = _steps_to_flip(state, epoch)
    inflight = tuple(
        Flipping(step.step, step.copies, step.abandons) if isinstance(step, Copying) and step.step in chosen else step
        for step in state.inflight
    )
    state = replace(state, running=epoch, inflight=inflight)
    moves = Plan.of(state.plan.schedule.steps[step] for step in chosen).moves
    return state, (Flip(epoch, chosen, moves),) if chosen else ()


def _steps_to_flip(state: MigrationState, epoch: Epoch) -> tuple[StepNumber, ...]:
    limits = state.limits
    if state.last_flip is not None and epoch - state.last_flip <= limits.gap_epochs:
        return ()
    chosen: list[StepNumber] = []
    bins = 0
    for step in state.inflight:
        if not (isinstance(step, Copying) and step.ready(epoch, state.flip_deltas)):
            if limits.in_order:
                break
            continue
        bins += len(state.plan.moves(step.step))
        if chosen and (len(chosen) >= limits.flips_per_epoch_max or bins > limits.flip_bins_per_epoch_max):
            break
        chosen.append(step.step)
    return tuple(chosen)


def _epoch_recorded(state: MigrationState, epoch: Epoch) -> Outcome:
    invariant(state.running in {None, epoch}, f"epoch {epoch} is recorded while {state.running} runs")
    invariant(epoch > state.recorded, f"epoch {epoch} is recorded after {state.recorded}")
    now = [step.step for step in state.inflight if isinstance(step, Flipping)]
    moved = Plan.of(state.plan.schedule.steps[step] for step in now).moves
    given = bins_by_worker(moved, at_source=True)
    retired = kept_without(state.kept, moved)
    state = replace(
        state,
        recorded=epoch,
        running=None,
        inflight=tuple(step for step in state.inflight if not isinstance(step, Flipping)),
        kept=tuple(RetainedCopy(worker, bins) for worker, bins in given if worker not in state.lost),
        steps_flipped=state.steps_flipped + len(now),
        bins_moved=state.bins_moved + len(moved),
        bytes_moved=state.bytes_moved + state.plan.bytes_of(moved),
        last_flip=epoch if now else state.last_flip,
    )
    return state, tuple(Retire(copy.worker, copy.bins) for copy in retired)


def _epoch_abandoned(state: MigrationState, epoch: Epoch) -> Outcome:
    """Return the running epoch's steps to copying; the stores have undone them, and their copies are unchanged."""
    invariant(state.running in {None, epoch}, f"epoch {epoch} is abandoned while {state.running} runs")
    back = [Copying(s.step, s.copies, s.abandons + 1) for s in state.inflight if isinstance(s, Flipping)]
    by_step = {step.step: step for step in back}
    inflight = tuple(by_step.get(step.step, step) for step in state.inflight)
    state = replace(state, running=None, inflight=inflight)
    actions: tuple[Action, ...] = ()
    for step in back:
        if step.abandons > state.limits.flip_abandons_max:
            why = f"epoch {epoch} was abandoned {step.abandons} times with step {step.step} in its route"
            state = _ending(state, Phase.FAILED, why)
        for lost in [copy.lost for copy in step.copies if copy.lost]:
            # Once the migration is ending, no copy is restarted: all are dropped.
            state, more = (state, ()) if state.ending else _copy_again(state, lost)
            actions += more
    return state, actions


def _worker_lost(state: MigrationState, worker: Worker) -> MigrationState:
    kept = tuple(copy for copy in state.kept if copy.worker != worker)
    state = replace(state, lost=state.lost | {worker}, kept=kept)
    undecided = [state.plan.moves_from(state.steps_begun), *(state.plan.moves(step.step) for step in state.inflight)]
    if not any(np.any((moves.sources == worker) | (moves.destinations == worker)) for moves in undecided):
        return state
    return _ending(state, Phase.FAILED, f"worker {worker} was lost; its bins must be reassigned first")


def _drop_waiting(state: MigrationState) -> Outcome:
    """Drop every step that no running epoch holds."""
    dropped = [step for step in state.inflight if isinstance(step, Copying)]
    inflight = tuple(step for step in state.inflight if not isinstance(step, Copying))
    return replace(state, inflight=inflight), tuple(
        DropCopies(worker, bins)
        for step in dropped
        if step.copies
        for worker, bins in bins_by_worker(state.plan.moves(step.step), at_source=False)
        if worker not in state.lost
    )


def _begin_steps(state: MigrationState) -> Outcome:
    """Begin the next steps of the plan, as far as limits and warm workers allow."""
    actions: tuple[Action, ...] = ()
    cold = state.plan.cold - state.warm
    while state.started and _has_room(state):
        step = StepNumber(state.steps_begun)
        parts = bins_by_worker(state.plan.moves(step), at_source=False)
        if any(worker in cold for worker, _ in parts):
            break
        copies = tuple(CopyState(worker) for worker, _ in parts) if state.plan.pre_copy else ()
        if copies:
            actions += tuple(Copy(step, worker, bins, 0) for worker, bins in parts)
            state = replace(state, kept=kept_without(state.kept, state.plan.moves(step)))
        state = replace(state, inflight=(*state.inflight, Copying(step, copies)), steps_begun=step + 1)
    return state, actions


def _has_room(state: MigrationState) -> bool:
    """Whether one more step may begin; the only one always may."""
    if state.steps_begun == len(state.plan.schedule.steps):
        return False
    held = [state.plan.moves(step.step) for step in state.inflight]
    if not held:
        return True
    if len(held) >= state.limits.steps_inflight_max:
        return False
    wanted = [*held, state.plan.moves(StepNumber(state.steps_begun))]
    return (
        sum(map(len, wanted)) <= state.limits.copy_bins_inflight_max
        and sum(map(state.plan.bytes_of, wanted)) <= state.limits.copy_bytes_inflight_max
    )


def _end_if_done(state: MigrationState) -> MigrationState:
    """End the migration if no record can change it any more. A cancellation after the last flip has no effect.

    After the loss of a worker it does not wait for copies to retire: the epoch that releases them may need the next plan.
    """
    all_flipped = state.steps_flipped == len(state.plan.schedule.steps)
    waits = state.inflight or (state.kept and not state.lost)
    if waits or not (state.ending or (state.started and all_flipped)):
        return state
    return replace(state, ended=Phase.SETTLED if all_flipped or state.ending is None else state.ending.phase)
