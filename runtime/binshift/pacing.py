"""The speed of a migration: a controller from measured latency to copying and flipping speed.

Two knobs for two costs. Copying takes processor time from every epoch, and is limited by a *duty cycle* (the fraction of
time in which copy jobs may run). A flip puts its last deltas into one epoch, and is limited by the *bins* that may flip in
it and by the *gap* to the next one. Each knob follows the epochs that show its cost: those without a flip control the
duty, those with a flip control bins and gap, unless copying alone is already too slow.

The rule is TCP's: if too slow, the knob is cut by a factor at once; if clearly fast enough, it grows by a fixed amount. It
never stops a migration (every knob has a minimum above standstill), and it ignores an aim that calm epochs miss as well.

In a steady state, where latency grows with the knob and only with it, a knob never again exceeds the highest value that
meets the aim by more than one increment, and never falls below ``cut`` times that value. If one increment changes latency by less
than the band between ``comfort`` and the aim, the knob settles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from binshift.invariants import invariant
from binshift.migration.limits import Limits
from binshift.model import BINS_MAX

LATENCY_PER_EPOCH = 2.0
"""A record that is due just after an epoch has begun waits for that one and then for its own."""


@dataclass(frozen=True, slots=True)
class PacingLimits:
    """The range of each knob, and how it changes."""

    duty_min: float = 0.05
    """Least fraction of time for copying: load slows a migration down, it does not stop it."""
    duty_max: float = 1.0
    duty_increment: float = 0.05
    bins_min: int = 1
    bins_max: int = BINS_MAX
    bins_increment: int = 16
    gap_epochs_max: int = 8
    cut: float = 0.5
    """Factor by which a knob is multiplied when the aim is missed."""
    comfort: float = 0.9
    """Fraction of the aim below which a knob grows; between it and the aim nothing changes."""
    calm_ratio: float = 1.25
    """The aim is never below this multiple of the calm latency: a lower aim would follow noise."""

    def __post_init__(self) -> None:
        invariant(0 < self.duty_min <= self.duty_max <= 1, "a duty cycle is a fraction above 0")
        invariant(0 < self.bins_min <= self.bins_max, "the range of bins is empty")
        invariant(self.duty_increment > 0 and self.bins_increment > 0, "an increment is not positive")
        invariant(0 < self.cut < 1 and 0 < self.comfort < 1 <= self.calm_ratio, "a pacing factor is out of range")


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed until the next decision."""

    duty: float = 0.25
    """Fraction of time in which copy jobs may run, above 0 and up to 1."""
    bins_per_flip: int = 64
    """Bins that may flip in one epoch."""
    gap_epochs: int = 0
    """Epochs without a flip between two with one."""

    def limits(self, limits: Limits) -> Limits:
        """The migration's limits at this pace; the copy job applies the duty cycle."""
        return replace(limits, flip_bins_per_epoch_max=self.bins_per_flip, gap_epochs=self.gap_epochs)


@dataclass(frozen=True, slots=True)
class Latency:
    """Record latencies (or epoch durations; one kind throughout) in seconds, each the worst since the last decision."""

    calm_seconds: float
    """Before the migration: the same quantile over epochs in which nothing moved."""
    copying_seconds: float | None = None
    """Over epochs without a flip in which copies were made; None if there was none."""
    flipping_seconds: float | None = None
    """Over epochs with a flip; None if there was none."""
    flipped_bins: int | None = None
    """The most bins of one of these flips. A slow flip of fewer bins than the pace permits counts for these bins only."""


def aim_seconds(latency: Latency, objective_seconds: float | None, limits: PacingLimits) -> float:
    """The latency to stay below: the user's objective, but never less than calm epochs need.

    >>> aim_seconds(Latency(calm_seconds=0.4), 1.0, PacingLimits()), aim_seconds(Latency(0.4), 0.1, PacingLimits())
    (1.0, 0.5)
    """
    return max(objective_seconds or 0.0, latency.calm_seconds * limits.calm_ratio)


def next_pace(
    pace: Pace, latency: Latency, objective_seconds: float | None = None, limits: PacingLimits | None = None
) -> Pace:
    """The next pace. A knob without a measurement does not change, within its range.

    >>> next_pace(Pace(duty=0.5), Latency(0.4, copying_seconds=2.0), 1.0).duty
    0.25
    >>> next_pace(Pace(bins_per_flip=64), Latency(0.4, copying_seconds=0.5, flipping_seconds=0.5), 1.0)
    Pace(duty=0.3, bins_per_flip=80, gap_epochs=0)
    """
    limits = limits or PacingLimits()
    aim = aim_seconds(latency, objective_seconds, limits)
    paced = _paced_copying(pace, latency.copying_seconds, aim, limits)
    too_slow_anyway = latency.copying_seconds is not None and latency.copying_seconds > aim
    if too_slow_anyway and pace.duty > limits.duty_min:
        return _within(paced, limits)
    return _within(_paced_flips(paced, latency, aim, limits), limits)


def _paced_copying(pace: Pace, seconds: float | None, aim: float, limits: PacingLimits) -> Pace:
    if seconds is None:
        return pace
    if seconds > aim:
        return replace(pace, duty=pace.duty * limits.cut)
    if seconds < aim * limits.comfort:
        return replace(pace, duty=pace.duty + limits.duty_increment)
    return pace


def _paced_flips(pace: Pace, latency: Latency, aim: float, limits: PacingLimits) -> Pace:
    """Reduce bins before lengthening gaps, as fewer bins lower the peak; reverse in the opposite order."""
    seconds = latency.flipping_seconds
    if seconds is None:
        return pace
    if seconds > aim:
        if pace.bins_per_flip > limits.bins_min:
            measured = min(pace.bins_per_flip, latency.flipped_bins or pace.bins_per_flip)
            return replace(pace, bins_per_flip=int(measured * limits.cut))
        return replace(pace, gap_epochs=pace.gap_epochs + 1)
    if seconds < aim * limits.comfort:
        if pace.gap_epochs:
            return replace(pace, gap_epochs=pace.gap_epochs - 1)
        return replace(pace, bins_per_flip=pace.bins_per_flip + limits.bins_increment)
    return pace


def _within(pace: Pace, limits: PacingLimits) -> Pace:
    return Pace(
        duty=min(max(pace.duty, limits.duty_min), limits.duty_max),
        bins_per_flip=min(max(pace.bins_per_flip, limits.bins_min), limits.bins_max),
        gap_epochs=min(max(pace.gap_epochs, 0), limits.gap_epochs_max),
    )
