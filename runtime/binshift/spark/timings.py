"""Where the time of an epoch went: for progress reports, metrics and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binshift.model import Epoch
from binshift.spark.progress import StateFigures

TIMINGS_KEPT = 10_000
"""Epochs of which they are kept."""


@dataclass(frozen=True)
class EpochTimings:
    """Where one epoch's time went, in seconds by part; the newest are kept for progress reports.

    Attributes:
        committed_at: when its record existed, in seconds since 1970.
        runs: how many it took.
        moved: bins that changed owner with it.
        operators: what each stateful operator did.
        moving: whether a migration was under way when it began, or when it was recorded.
    """

    epoch: Epoch
    committed_at: float
    runs: int
    seconds: Mapping[str, float]
    rows_in: int
    rows_out: int
    moved: int
    operators: tuple[StateFigures, ...] = ()
    moving: bool = False
