"""Measures epochs and lets the pacing controller set the speed of a migration.

It turns durations of epochs into the record latencies that the controller compares with the user's aim: a record that is
due just after an epoch has begun waits for that one and then for its own, so the worst record latency of a stream that
always has input is about twice an epoch. Time is an input: durations are arguments, no clock is read.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

from binshift.migration import Rates
from binshift.pacing import LATENCY_PER_EPOCH, Latency, Pace, PacingLimits, aim_seconds, next_pace

EPOCHS_PER_DECISION = 4
"""Epochs between two decisions: enough that one slow epoch is not taken for the pace's fault alone."""

CALM_EPOCHS = 64
"""Calm epochs remembered; the worst twentieth of them is left out."""


@dataclass
class Pacer:
    """The pace of one query's migrations.

    Attributes:
        aim_seconds: the record latency to stay below, if the user has named one; see `Settings.latency_target_seconds`.
        pace: what holds now; at first with the largest duty of a migration that begins, and of calm times.
        limits: the range of each knob.
    """

    aim_seconds: float | None
    pace: Pace
    limits: PacingLimits = field(default_factory=PacingLimits)
    _calm: deque[float] = field(default_factory=lambda: deque(maxlen=CALM_EPOCHS))
    _all: deque[float] = field(default_factory=lambda: deque(maxlen=8))
    _copying: list[float] = field(default_factory=list)
    _flipping: list[float] = field(default_factory=list)
    _flipped_bins: int = 0
    _first_duty: float = field(init=False)

    def __post_init__(self) -> None:
        self._first_duty = self.pace.duty

    def restart(self) -> Pace:
        """The pace of a migration that begins, or ended: the load can be another one than before."""
        self.pace = replace(self.pace, duty=min(self.pace.duty, self._first_duty))
        return self.pace

    @property
    def calm_seconds(self) -> float | None:
        """The 95th percentile of calm epochs; None before there was one."""
        if not self._calm:
            return None
        return sorted(self._calm)[max(0, math.ceil(len(self._calm) * 0.95) - 1)]

    @property
    def target_seconds(self) -> float | None:
        """The record latency that holds: the user's, but not less than calm epochs need; None if neither is known."""
        if self.calm_seconds is None:
            return self.aim_seconds
        return aim_seconds(Latency(self.calm_seconds * LATENCY_PER_EPOCH), self.aim_seconds, self.limits)

    @property
    def epoch_seconds(self) -> float | None:
        """The mean of the newest epochs; None before there was one."""
        return sum(self._all) / len(self._all) if self._all else None

    def epoch(self, seconds: float, *, moving: bool, flipped_bins: int) -> bool:
        """An epoch took ``seconds``; whether the pace changed with it.

        Args:
            seconds: from its trigger to its record.
            moving: a migration was under way.
            flipped_bins: how many bins changed owner in it.
        """
        self._all.append(seconds)
        if not moving and not flipped_bins:
            self._calm.append(seconds)
            self._copying, self._flipping, self._flipped_bins = [], [], 0
            self.restart()
            return False
        (self._flipping if flipped_bins else self._copying).append(seconds)
        self._flipped_bins = max(self._flipped_bins, flipped_bins)
        if len(self._copying) + len(self._flipping) < EPOCHS_PER_DECISION or not self._calm:
            return False
        before, self.pace = self.pace, next_pace(self.pace, self._latency(), self.aim_seconds, self.limits)
        self._copying, self._flipping, self._flipped_bins = [], [], 0
        return self.pace != before

    def _latency(self) -> Latency:
        assert self.calm_seconds is not None
        return Latency(
            self.calm_seconds * LATENCY_PER_EPOCH,
            max(self._copying) * LATENCY_PER_EPOCH if self._copying else None,
            max(self._flipping) * LATENCY_PER_EPOCH if self._flipping else None,
            self._flipped_bins or None,
        )


@dataclass(frozen=True)
class CopyRate:
    """How fast bins get ready, over the time in which they did."""

    bins: int = 0
    seconds: float = 0.0

    def with_round(self, bins: int, seconds: float) -> CopyRate:
        """One more round of copying."""
        return replace(self, bins=self.bins + bins, seconds=self.seconds + seconds)

    def rates(self, epoch_seconds: float | None) -> Rates:
        """What `progress` estimates the time left from."""
        measured = self.bins / self.seconds if self.bins and self.seconds > 0 else None
        return Rates(epoch_seconds=epoch_seconds, copy_bins_per_second=measured)
