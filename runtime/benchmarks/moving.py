"""The effect of a rescale on record latency: the common columns of all benchmarks of a move. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from latency import Latencies

from openloop import percentile

PLOT_BEFORE_SECONDS = 6.0
PLOT_AFTER_SECONDS = 4.0


@dataclass(frozen=True)
class Times:
    """Start of the calm time, time of the request, and time of the end; in seconds since 1970."""

    calm_from: float
    began: float
    ended: float


def columns(found: Latencies, times: Times) -> dict[str, Any]:
    """Latency before and during, the spike (worst during over the calm p99), silence, and a plot's points."""
    calm = found.calm(times.calm_from, times.began)
    moving = found.moving(times.began, times.ended)
    before, during = (times.calm_from, times.began), (times.began, times.ended)
    return {
        "calm_p50_s": percentile(calm, 50),
        "calm_p99_s": percentile(calm, 99),
        "moving_p50_s": percentile(moving, 50),
        "moving_max_s": percentile(moving, 100),
        "spike": percentile(moving, 100) / percentile(calm, 99),
        "seconds": times.ended - times.began,
        "silent_before_s": found.usual_silence(*before),
        "silent_s": found.longest_silence(*during),
        "skipped": found.skipped(before, during),
        "_took": round(times.ended - times.began, 2),
        "_latency": found.series(times.began - PLOT_BEFORE_SECONDS, times.ended + PLOT_AFTER_SECONDS, times.began),
    }
