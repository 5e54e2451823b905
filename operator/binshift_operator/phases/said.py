"""What the decision says of itself, for the status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binshift_operator.model.reasons import DegradedReason, ProgressingReason, SettledReason
from binshift_operator.model.status import Moving, Settling


@dataclass(frozen=True, slots=True)
class Said:
    """What is awaited (or why nothing is), and what a person must know; the fields are those of `decide.step.Step`.

    ``stale``: whether pods wait to be replaced.
    """

    reason: ProgressingReason | SettledReason
    message: str
    is_settled: bool
    settled: bool = False
    settling: Settling | None = None
    timed_out: bool = False
    degraded: tuple[DegradedReason, str] | None = None
    finished: bool = False
    stale: bool = False
    waiting: Mapping[int, float] = field(default_factory=dict)
    moving: Moving | None = None
