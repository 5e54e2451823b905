"""The effect of a rescale on record latency: the common columns of all benchmarks of a move. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from latency import Latencies

from openloop import percentile

PLOT_BEFORE_SECONDS = 6.0
PLOT_AFTER_SECONDS = 4.0


SETTLE_SECONDS = 4.0
"""After a move, copies that are given up are deleted: this time is neither calm nor of the move."""


@dataclass(frozen=True)
class Times:
    """Start of the calm time, time of the request, time of the end, and end of the calm time after it; in seconds since 1970.

    Without a calm time after the move, `calm_to` is its end.
    """

    calm_from: float
    began: float
    ended: float
    calm_to: float = 0.0


def columns(found: Latencies, times: Times) -> dict[str, Any]:
    """Latency before and during, the spike (worst during over the larger calm p99 of before and after), silence, and a plot's points."""
    calm = found.calm(times.calm_from, times.began)
    after = found.calm(times.ended + SETTLE_SECONDS, times.calm_to) or calm
    moving = found.moving(times.began, times.ended)
    before, during = (times.calm_from, times.began), (times.began, times.ended)
    return {
        "calm_p50_s": percentile(calm, 50),
        "calm_p99_s": percentile(calm, 99),
        "moving_p50_s": percentile(moving, 50),
        "moving_max_s": percentile(moving, 100),
        "after_p99_s": percentile(after, 99),
        "spike": percentile(moving, 100) / max(percentile(calm, 99), percentile(after, 99)),
        "seconds": times.ended - times.began,
        "silent_before_s": found.usual_silence(*before),
        "silent_s": found.longest_silence(*during),
        "skipped": found.skipped(before, during),
        "_took": round(times.ended - times.began, 2),
        "_latency": found.series(times.began - PLOT_BEFORE_SECONDS, times.ended + PLOT_AFTER_SECONDS, times.began),
    }
