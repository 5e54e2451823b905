"""The figures of moves: the worst record while moving over the calm p99 of the same run. Pure.

Calm times are those before and after every move of a run, together: one move has too few of them for a 99th percentile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from latency import Latencies

from openloop import percentile

BEFORE_SECONDS, AFTER_SECONDS = 3.0, 4.0
"""Of a plot."""


@dataclass(frozen=True)
class Shot:
    """One measured move: times in seconds since 1970.

    Attributes:
        way: its name.
        calm_from: the beginning of the calm time before.
        began: the request.
        ended: when the move had ended.
        calm_to: the end of the calm time after.
        more: further columns of the row of results.
    """

    way: str
    calm_from: float
    began: float
    ended: float
    calm_to: float
    more: Mapping[str, Any] = field(default_factory=dict)


def calm(found: Latencies, shots: Sequence[Shot]) -> list[float]:
    """The worst latency of every 250 ms of all calm times."""
    times = [span for each in shots for span in ((each.calm_from, each.began), (each.ended, each.calm_to))]
    return [latency for began, ended in times for latency in found.calm(began, ended)]


def together(found: Latencies, shots: Sequence[Shot], of_run: Sequence[Shot]) -> dict[str, Any]:
    """The figures of the moves of one way; ``of_run`` are all moves of the run, whose calm times count."""
    still = calm(found, of_run)
    p99 = percentile(still, 99)
    ordered = sorted(shots, key=lambda shot: _worst(found, shot))
    usual = ordered[len(ordered) // 2]
    worst = [_worst(found, shot) for shot in ordered]
    return {
        "moves": len(shots),
        "calm_p50_s": percentile(still, 50),
        "calm_p99_s": p99,
        "worst_median_s": median(worst),
        "worst_s": worst[-1],
        "spike_median": median(worst) / p99,
        "spike_worst": worst[-1] / p99,
        "seconds": median(shot.ended - shot.began for shot in shots),
        "silent_s": max(found.longest_silence(shot.began, shot.ended) for shot in shots),
        "skipped": sum(found.skipped((shot.calm_from, shot.began), (shot.began, shot.ended)) for shot in shots),
        **usual.more,
        "_took": round(usual.ended - usual.began, 2),
        "_latency": found.series(usual.began - BEFORE_SECONDS, usual.ended + AFTER_SECONDS, usual.began),
    }


def _worst(found: Latencies, shot: Shot) -> float:
    worst = percentile(found.moving(shot.began, shot.ended), 100)
    return math.inf if math.isnan(worst) else worst


def recovered(found: Latencies, calm_max: float, broken: float) -> float:
    """Seconds from a failure until a record is as early again as the latest of calm times: 0 if none was later, infinite if all stay late."""
    later = [(due, latency) for due, latency in found.buckets() if due + latency >= broken]
    late = [at for at, (_, latency) in enumerate(later) if latency > calm_max]
    if not late:
        return 0.0
    first = next((due for due, latency in later[late[0] :] if latency <= calm_max), math.inf)
    return max(0.0, first - broken)
