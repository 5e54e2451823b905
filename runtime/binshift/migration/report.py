"""The progress of a migration and its remaining time, computed from its state and measured rates.

Read-only. Rates are inputs: nothing here reads a clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from binshift.invariants import invariant
from binshift.migration.state import Copying, MigrationState, Phase
from binshift.model import Bin, Epoch, IntArray, Worker


@dataclass(frozen=True, slots=True)
class Rates:
    """Recent measurements; None if nothing was measured."""

    epoch_seconds: float | None = None
    """From one epoch's start to the next one's."""
    copy_bins_per_second: float | None = None
    """Over all destinations, at the current duty cycle."""
    copy_bytes_per_second: float | None = None
    """The same in bytes; preferred where bin sizes are known."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A migration in numbers. ``moved`` counts recorded flips; ``copied`` counts bins that are ready on their destination but
    have not flipped. Bytes are 0 if bin sizes are unknown. ``seconds_left`` is None if a rate that it needs is."""

    phase: Phase
    reason: str
    steps_flipped: int
    steps_inflight: int
    steps_total: int
    bins_moved: int
    bins_copied: int
    bins_total: int
    bytes_moved: int
    bytes_copied: int
    bytes_total: int
    seconds_left: float | None


def progress(state: MigrationState, rates: Rates | None = None) -> Progress:
    """The progress of ``state``."""
    plan = state.plan
    next_epoch = Epoch(state.recorded + 1)
    ready = [
        plan.moves(step.step)
        for step in state.inflight
        if plan.pre_copy and (not isinstance(step, Copying) or step.ready(next_epoch, state.flip_deltas))
    ]
    bins_copied, bytes_copied = sum(map(len, ready)), sum(map(plan.bytes_of, ready))
    bytes_total = plan.bytes_of(plan.schedule.moves)
    return Progress(
        phase=state.phase,
        reason=state.reason,
        steps_flipped=state.steps_flipped,
        steps_inflight=len(state.inflight),
        steps_total=len(plan.schedule.steps),
        bins_moved=state.bins_moved,
        bins_copied=bins_copied,
        bins_total=plan.schedule.bins_total,
        bytes_moved=state.bytes_moved,
        bytes_copied=bytes_copied,
        bytes_total=bytes_total,
        seconds_left=_seconds_left(
            state,
            rates or Rates(),
            bins=plan.schedule.bins_total - state.bins_moved - bins_copied,
            size=bytes_total - state.bytes_moved - bytes_copied,
        ),
    )


def moves_back(state: MigrationState, owners: IntArray) -> dict[Bin, Worker]:
    """What reverts a cancelled migration, where ``owners`` are those of the recorded route; empty if it has moved nothing."""
    moves = state.plan.schedule.moves
    now = owners[moves.bins]
    moved, waits = now == moves.destinations, now == moves.sources
    if state.running is None and not moved.any():
        return {}
    ours = moved | waits  # the running epoch may be flipping some that wait
    return {Bin(b): Worker(w) for b, w in zip(moves.bins[ours], moves.sources[ours], strict=True)}


def wants_epoch(state: MigrationState) -> bool:
    """Whether the migration waits for an epoch, so that an idle stream must run one without input.

    This is so when a step is ready to flip, or a source may drop its copies after one more record.
    """
    if state.ended is not None:
        return False
    if state.kept:
        return True
    waiting = state.inflight[:1] if state.limits.in_order else state.inflight
    next_epoch = Epoch(state.recorded + 1)
    return not state.ending and any(
        isinstance(step, Copying) and step.ready(next_epoch, state.flip_deltas) for step in waiting
    )


def _seconds_left(state: MigrationState, rates: Rates, bins: int, size: int) -> float | None:
    """Copying and flipping overlap, so the longer of the two counts."""
    if state.ended is not None:
        return 0.0
    copying = _copy_seconds(state, rates, bins, size)
    if rates.epoch_seconds is None or copying is None:
        return None
    return max(copying, _epochs_left(state) * rates.epoch_seconds)


def _copy_seconds(state: MigrationState, rates: Rates, bins: int, size: int) -> float | None:
    if not state.plan.pre_copy or state.ending or not bins:
        return 0.0
    known = state.plan.bin_bytes is not None and rates.copy_bytes_per_second is not None
    left, rate = (size, rates.copy_bytes_per_second) if known else (bins, rates.copy_bins_per_second)
    invariant(rate is None or rate >= 0, "a rate is negative")
    return max(left, 0) / rate if rate else None


def _epochs_left(state: MigrationState) -> int:
    """The least number: every flip at its earliest, then one more record."""
    if state.ending:
        return 1
    limits = state.limits
    steps = len(state.plan.schedule.steps) - state.steps_flipped
    bins = state.plan.schedule.bins_total - state.bins_moved
    flips = max(
        math.ceil(steps / min(limits.flips_per_epoch_max, limits.steps_inflight_max)),
        min(steps, math.ceil(bins / limits.flip_bins_per_epoch_max)),
    )
    return max(flips - 1, 0) * (1 + limits.gap_epochs) + (2 if flips else 1)
