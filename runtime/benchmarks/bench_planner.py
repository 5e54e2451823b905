"""The duration of planning at its limit: 1,000 workers and 2^20 bins in at most 1 s and 1 GiB, including steps.

For each case: seconds to find the target, to list the moves and to cut them into steps, in wall-clock and in processor time.
The target applies to processor time: planning runs on one thread, and other load on the machine must not count. The last
case, moves between random workers, is not made by the planner; it shows the cost of many different pairs of workers.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from archive import save
from options import WATCH, parsed, parser
from rich.progress import track
from tables import text
from targets import Row, Target, verdicts

from binshift.model import BINS_MAX, Moves, Plan, Worker
from binshift.planner import balanced_route
from binshift.routing import Route
from binshift.strategies import Strategy, cut

WORKERS = 1000
TARGETS = (
    Target("planning 2^20 bins on 1,000 workers", "cpu_s", 1.0, of=lambda row: row["planned"], unit=" s"),
    Target("memory of planning", "peak_mib", 1024, of=lambda row: row["planned"], unit=" MiB"),
)
CUTS = ((Strategy.OPTIMIZED, 64), (Strategy.OPTIMIZED, 1), (Strategy.BATCHED, 64))


@dataclass(frozen=True)
class Case:
    """A rescale at the limit."""

    name: str
    route: Route
    workers: range
    weights: npt.NDArray[np.float64] | None = None


def cases() -> list[Case]:
    """Growing, shrinking, replacing and re-weighing, on even and on scattered routes."""
    chance = np.random.default_rng(1)
    even = Route.initial(BINS_MAX, map(Worker, range(WORKERS)))
    half = Route.initial(BINS_MAX, map(Worker, range(WORKERS // 2)))
    scattered = Route(chance.integers(0, WORKERS // 2, BINS_MAX).astype(np.int32))
    return [
        Case("grow 500 -> 1000", half, range(WORKERS)),
        Case("grow 500 -> 1000, bins scattered", scattered, range(WORKERS)),
        Case("grow 999 -> 1000", Route.initial(BINS_MAX, map(Worker, range(WORKERS - 1))), range(WORKERS)),
        Case("shrink 1000 -> 500", even, range(WORKERS // 2)),
        Case("replace all 1000", even, range(WORKERS, 2 * WORKERS)),
        Case(
            "re-weigh 1000, gamma weights", even, range(WORKERS), chance.gamma(2, 1, BINS_MAX) * (1 + even.owners % 2)
        ),
        Case("grow 500 -> 1000, uniform weights", half, range(WORKERS), chance.random(BINS_MAX)),
        Case("grow 500 -> 1000, Pareto weights", half, range(WORKERS), chance.pareto(1.2, BINS_MAX)),
        Case("grow 500 -> 1000, Zipf weights", half, range(WORKERS), 1 / np.arange(1, BINS_MAX + 1)),
    ]


def timed(work: Callable[[], Plan]) -> tuple[float, float, Plan]:
    """Wall-clock seconds, processor seconds, and the result."""
    wall, processor = time.perf_counter(), time.process_time()
    plan = work()
    return time.perf_counter() - wall, time.process_time() - processor, plan


def planned(case: Case, strategy: Strategy, batch_size: int) -> Plan:
    """All of planning, as in the driver."""
    target = balanced_route(case.route, list(map(Worker, case.workers)), case.weights)
    return cut(case.route.moves_to(target.owners), strategy, batch_size, case.weights)


def main() -> None:
    """Time every case with every strategy."""
    args = parsed(parser(__doc__), {})
    every = [(case, *way) for case in cases() for way in CUTS]
    rows = []
    for case, strategy, batch_size in track(every[:1] if args.quick else every, description="plans"):
        measured = timed(partial(planned, case, strategy, batch_size))
        rows.append(row_of(case.name, strategy, batch_size, *measured, planned_so=True))
    chance = np.random.default_rng(2)
    sources, destinations = (chance.integers(0, WORKERS, BINS_MAX) for _ in range(2))
    moves = Moves(np.arange(BINS_MAX), sources, WORKERS + destinations)
    measured = timed(partial(cut, moves, Strategy.OPTIMIZED, 64))
    rows.append(row_of("between random pairs", Strategy.OPTIMIZED, 64, *measured, planned_so=False))
    print(text(rows))
    worst = [max((row for row in rows if row["planned"]), key=lambda row: row["cpu_s"])]
    print(text(verdicts(worst, TARGETS, named)))
    if not args.quick:
        save("planner", rows, ["case", "strategy", "batch_size"], elsewhere=WATCH.cores())


def row_of(
    name: str, strategy: Strategy, batch_size: int, wall: float, cpu: float, plan: Plan, planned_so: bool
) -> dict[str, Any]:
    """A row of results."""
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    row: dict[str, Any] = {"case": name, "strategy": str(strategy), "batch_size": batch_size, "planned": planned_so}
    return row | {"s": wall, "cpu_s": cpu, "bins_moved": plan.bins_total, "steps": len(plan.steps), "peak_mib": peak}


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['case']}, {row['strategy']} {row['batch_size']}"


if __name__ == "__main__":
    main()
