"""What one part of the decision comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binshift_operator.model.actions import Action
from binshift_operator.model.reasons import DegradedReason, ProgressingReason, SettledReason
from binshift_operator.model.status import Moving, Settling


@dataclass(frozen=True, slots=True)
class Step:
    """Actions, and what they are steps towards.

    Attributes:
        actions: in order.
        reason: what is awaited, or why nothing is.
        message: the same for people.
        settled: whether the spec's generation is in place in full.
        settling: see `model.status.Settling`; None: not known now.
        timed_out: whether the migration of this generation has taken too long.
        degraded: what this part found that a person must act upon.
        waiting: see `model.status.Status`.
        moving: see `model.status.Moving`.
        finished: whether the program has just ended by itself, which is to be remembered for this generation.
    """

    actions: tuple[Action, ...]
    reason: ProgressingReason | SettledReason
    message: str = ""
    settled: bool = False
    settling: Settling | None = None
    timed_out: bool = False
    degraded: tuple[DegradedReason, str] | None = None
    finished: bool = False
    waiting: Mapping[int, float] = field(default_factory=dict)
    moving: Moving | None = None
