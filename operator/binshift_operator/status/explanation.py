"""What a decision tells the status about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binshift_operator.model.reasons import DegradedReason, ProgressingReason, SettledReason
from binshift_operator.model.status import Moving, SettledTarget


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a decision.

    Attributes:
        reason: what is being waited for, or why nothing is.
        message: the same as a sentence.
        realised: whether the spec's generation is in place in full.
        settled_target: see `model.status.Settling`; None: unknown at the moment.
        timed_out: whether the migration of this generation has timed out.
        degraded: the problem that this decision found, if any.
        finished: whether the program has just ended by itself, which the status must record for this spec.
        outdated: whether pods wait to be replaced.
        waiting: see `model.status.Status`.
        moving: see `model.status.Moving`.
    """

    reason: ProgressingReason | SettledReason
    message: str = ""
    realised: bool = False
    settled_target: SettledTarget | None = None
    timed_out: bool = False
    degraded: tuple[DegradedReason, str] | None = None
    finished: bool = False
    outdated: bool = False
    waiting: Mapping[int, float] = field(default_factory=dict)
    moving: Moving | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being waited for."""
        return isinstance(self.reason, SettledReason)
