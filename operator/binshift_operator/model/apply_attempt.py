"""How a child was last applied, as the operator remembers it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApplyAttempt:
    """The last application of a child: the hash of the manifest, how often it was changed afterwards, and when it was applied."""

    manifest_hash: str
    attempts: int
    at: float
    max_unavailable: int = 0
    """The number requested of a disruption budget; 0 for others."""
    overwritten: int = 0
    """How often another operator had replaced it."""
    rival: str = ""
    """The name of that operator."""
