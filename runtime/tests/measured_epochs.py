"""Measured epochs, made up."""

from __future__ import annotations

from dataclasses import dataclass, field

from binshift.model import Epoch


@dataclass(frozen=True)
class Done:
    """What an operator did."""

    rows_stored: int = 50
    bytes_stored: int = 2000
    rows_late: int = 0
    brought_up: int = 0


@dataclass(frozen=True)
class Measured:
    """An epoch."""

    epoch: Epoch
    committed_at: float = 100.0
    runs: int = 1
    seconds: dict[str, float] = field(default_factory=lambda: {"total": 0.35})
    rows_in: int = 10
    rows_out: int = 4
    moved: int = 0
    operators: tuple[Done, ...] = (Done(),)
