"""The state of one migration at one moment: frozen, and small however long the plan is.

Only steps in progress have a state, one of two: `Copying` (copies are made and kept current; ready when complete) and
`Flipping` (in the route of the running epoch, so its record decides). Earlier steps have flipped, later steps have not begun.
`RetainedCopy` is what sources still keep of flipped bins, until one more epoch is recorded.

A migration has ended when no step is in progress, none will begin and no copy is kept. Only after the loss of a worker does it
end with copies kept: the epoch that releases them may require another plan. They are then passed to the next migration
(`begin`).

Nothing here is durable. A driver that restarts makes a new plan from the recorded route and the desired target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from binshift.invariants import invariant
from binshift.migration.events import CopyFailed, StepNumber
from binshift.migration.limits import Limits
from binshift.model import BEFORE_FIRST, BinSet, Epoch, Moves, Plan, Worker


class Phase(StrEnum):
    """The phase of a migration, for display; nothing is decided by it."""

    PLANNED = "planned"
    WARMING = "warming"
    COPYING = "copying"
    FLIPPING = "flipping"
    SETTLED = "settled"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether no further action follows."""
        return self in {Phase.SETTLED, Phase.CANCELLED, Phase.FAILED}


@dataclass(frozen=True, slots=True, eq=False)
class MigrationPlan:
    """What to do, fixed for the life of a migration.

    ``schedule`` starts at the recorded route. ``cold`` are the workers that must be warmed before they receive a bin.
    ``bin_bytes`` has the size of every bin of the route, if sizes are known; it may be out of date.
    """

    schedule: Plan
    cold: frozenset[Worker] = frozenset()
    pre_copy: bool = True
    bin_bytes: npt.NDArray[np.int64] | None = None

    def moves(self, step: StepNumber) -> Moves:
        """The moves of a step."""
        return self.schedule.steps[step].moves

    def moves_from(self, step: int) -> Moves:
        """The moves of a step and of all later steps."""
        steps = self.schedule.steps
        return steps.moves[int(steps.ends[step - 1]) if step else 0 :]

    def bytes_of(self, moves: Moves) -> int:
        """The size of the moved bins, in bytes; 0 if sizes are unknown."""
        return 0 if self.bin_bytes is None else int(self.bin_bytes[moves.bins].sum())


@dataclass(frozen=True, slots=True)
class CopyState:
    """A step's bins on one destination: at ``epoch``, or None if not all have arrived.

    ``lost`` is a failure that waits for the running epoch to be decided: if it is recorded, the copy has become the bin itself,
    and the failure has no meaning.
    """

    destination: Worker
    attempt: int = 0
    epoch: Epoch | None = None
    lost: CopyFailed | None = None

    def allows(self, epoch: Epoch, deltas: int) -> bool:
        """Whether a flip in ``epoch``, which needs the state of epoch-1, finds the copy at most this many deltas behind."""
        return self.lost is None and self.epoch is not None and self.epoch >= epoch - 1 - deltas


@dataclass(frozen=True, slots=True)
class Copying:
    """A step whose copies are being made or, kept current, wait for their flip."""

    step: StepNumber
    copies: tuple[CopyState, ...]
    abandons: int = 0

    def ready(self, epoch: Epoch, deltas: int) -> bool:
        """Whether the step may flip in ``epoch`` with this many deltas. Without pre-copy it always may."""
        return all(copy.allows(epoch, deltas) for copy in self.copies)


@dataclass(frozen=True, slots=True)
class Flipping:
    """A step in the route of the running epoch, decided by that epoch's record."""

    step: StepNumber
    copies: tuple[CopyState, ...]
    abandons: int


InFlight: TypeAlias = Copying | Flipping


@dataclass(frozen=True, slots=True)
class RetainedCopy:
    """Copies that a source keeps of bins it gave away in the newest recorded epoch; the next record releases them."""

    worker: Worker
    bins: BinSet


@dataclass(frozen=True, slots=True)
class Termination:
    """Why no further step will flip: a cancellation or a failure. Steps in progress must still be released."""

    phase: Phase
    reason: str


@dataclass(frozen=True, slots=True)
class MigrationState:
    """One migration. Made by `begin`, changed only by `binshift.migration.advance`."""

    plan: MigrationPlan
    limits: Limits
    recorded: Epoch
    """The newest epoch whose record exists."""
    running: Epoch | None = None
    """The epoch whose route is fixed and whose record does not exist yet."""
    started: bool = False
    warm: frozenset[Worker] = frozenset()
    """Those of ``plan.cold`` that are warm."""
    lost: frozenset[Worker] = frozenset()
    inflight: tuple[InFlight, ...] = ()
    """Steps in progress, in the order of the plan."""
    kept: tuple[RetainedCopy, ...] = ()
    """Copies that retire with the next record; left over at the end only if a worker was lost."""
    steps_begun: int = 0
    """Steps of the plan, from its front, that have begun."""
    steps_flipped: int = 0
    bins_moved: int = 0
    bytes_moved: int = 0
    last_flip: Epoch | None = None
    """The last epoch recorded with a flip."""
    misses: int = 0
    """Consecutive rounds after which copies were too far behind to flip."""
    ending: Termination | None = None
    ended: Phase | None = None

    @property
    def flip_deltas(self) -> int:
        """Deltas that a flip may have to apply now: more than usual, if rounds take longer than that many epochs."""
        wanted = self.limits.flip_deltas_max << max(0, self.misses - self.limits.flip_misses_max)
        return max(self.limits.flip_deltas_max, min(wanted, self.limits.flip_deltas_limit))

    @property
    def phase(self) -> Phase:
        """The phase, for display."""
        if self.ended is not None:
            return self.ended
        if not self.started:
            return Phase.PLANNED
        if self.steps_flipped or any(isinstance(step, Flipping) for step in self.inflight):
            return Phase.FLIPPING
        return Phase.COPYING if self.inflight or self.plan.cold <= self.warm else Phase.WARMING

    @property
    def reason(self) -> str:
        """Why it ended, or is ending, early; empty if it is not."""
        return self.ending.reason if self.ending and self.ended is not Phase.SETTLED else ""


def begin(
    plan: MigrationPlan,
    limits: Limits | None = None,
    recorded: Epoch = BEFORE_FIRST,
    kept: tuple[RetainedCopy, ...] = (),
) -> MigrationState:
    """A migration that has not started. ``recorded`` is the newest epoch with a record: the plan starts there.

    The previous one must have ended, as two at once could flip one bin twice; ``kept`` is what it still kept.
    """
    sizes = plan.bin_bytes
    fits = sizes is None or (bool((sizes >= 0).all()) and sizes.size > plan.schedule.moves.bins.max(initial=-1))
    invariant(fits, "bin sizes do not fit the plan's bins")
    return MigrationState(plan=plan, limits=limits or Limits(), recorded=recorded, kept=kept)


def after_round(state: MigrationState) -> MigrationState:
    """Count a round after which a copy is too far behind to flip in the next epoch that starts.

    The allowance grows until it covers what rounds really need, so it stays below twice that, and below its limit.
    """
    copies = [copy for step in state.inflight if isinstance(step, Copying) for copy in step.copies]
    epochs = [copy.epoch for copy in copies if copy.epoch is not None]
    if not epochs:
        return state
    behind = (state.recorded if state.running is None else state.running) - min(epochs)
    if behind > state.flip_deltas:
        return replace(state, misses=state.misses + (state.flip_deltas < state.limits.flip_deltas_limit))
    return replace(state, misses=0) if behind <= state.limits.flip_deltas_max else state


def bins_by_worker(moves: Moves, *, at_source: bool) -> tuple[tuple[Worker, BinSet], ...]:
    """The bins of some moves by source (``at_source``) or by destination, workers ascending."""
    ends = moves.sources if at_source else moves.destinations
    order = np.argsort(ends, kind="stable")
    workers, starts = np.unique(ends[order], return_index=True)
    parts = np.split(moves.bins[order], starts[1:])
    return tuple((Worker(worker), BinSet(part)) for worker, part in zip(workers.tolist(), parts, strict=False))


def kept_without(kept: tuple[RetainedCopy, ...], moves: Moves) -> tuple[RetainedCopy, ...]:
    """The kept copies without the bins that return to their keeper: those copies are needed again."""
    less = (replace(copy, bins=copy.bins - moves.bins_to(copy.worker)) for copy in kept)
    return tuple(copy for copy in less if len(copy.bins))
