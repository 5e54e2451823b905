"""A condition before it is dated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Judged:
    """A condition without its times."""

    status: bool | None
    reason: str
    message: str
