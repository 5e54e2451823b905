"""How long planning takes at its stated limit: 1,000 workers and 2^20 bins in at most 1 s and 1 GiB, steps included.

Prints one line for each case: seconds to find the target, to list the moves and to cut them into steps, by the clock on the
wall and by the processor's, then what the process has needed at most. The verdict is by the processor's: planning runs
on one thread, and a busy machine is no fault of it. Run it with ``PYTHONPATH=runtime python
runtime/benchmarks/bench_planner.py``. The last case, moves between random workers, is none the planner makes; it shows what
many different pairs of workers cost.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from binshift.model import BINS_MAX, Moves, Plan, Worker
from binshift.planner import target_route
from binshift.routing import Route
from binshift.strategies import Strategy, cut

SECONDS_MAX = 1.0
MEBIBYTES_MAX = 1024
WORKERS = 1000


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
        Case("re-weigh 1000, gamma weights", even, range(WORKERS), chance.gamma(2, 1, BINS_MAX)),
        Case("grow 500 -> 1000, Pareto weights", half, range(WORKERS), chance.pareto(1.2, BINS_MAX)),
        Case("grow 500 -> 1000, Zipf weights", half, range(WORKERS), 1 / np.arange(1, BINS_MAX + 1)),
    ]


def timed(work: Callable[[], Plan]) -> tuple[float, float, Plan]:
    """Seconds on the wall, seconds of the processor, and what they gave."""
    wall, processor = time.perf_counter(), time.process_time()
    plan = work()
    return time.perf_counter() - wall, time.process_time() - processor, plan


def planned(case: Case, strategy: Strategy, batch_size: int) -> Plan:
    """All of planning, as the driver does it."""
    target = target_route(case.route, list(map(Worker, case.workers)), case.weights)
    return cut(case.route.moves_to(target.owners), strategy, batch_size, case.weights)


def main() -> None:
    """Print the table and the verdict."""
    worst = 0.0
    print(f"{'case':36}{'strategy':12}{'n':>4}{'seconds':>9}{'cpu':>8}{'bins moved':>12}{'steps':>9}")
    for case in cases():
        for strategy, batch_size in ((Strategy.OPTIMIZED, 64), (Strategy.OPTIMIZED, 1), (Strategy.BATCHED, 64)):
            wall, cpu, plan = timed(partial(planned, case, strategy, batch_size))
            worst = max(worst, cpu)
            what = f"{case.name:36}{strategy:12}{batch_size:4}"
            print(f"{what}{wall:9.3f}{cpu:8.3f}{plan.bins_total:12}{len(plan.steps):9}", flush=True)
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    verdict = "met" if worst <= SECONDS_MAX and mebibytes <= MEBIBYTES_MAX else "MISSED"
    print(
        f"worst {worst:.3f} s of processor time, of {SECONDS_MAX} s, peak {mebibytes:.0f} MiB of {MEBIBYTES_MAX} MiB: {verdict}"
    )
    chance = np.random.default_rng(2)
    sources, destinations = (chance.integers(0, WORKERS, BINS_MAX) for _ in range(2))
    moves = Moves(np.arange(BINS_MAX), sources, WORKERS + destinations)
    wall, cpu, plan = timed(partial(cut, moves, Strategy.OPTIMIZED, 64))
    print(f"not a target: 2^20 bins between random pairs {wall:.3f} s, cpu {cpu:.3f} s, {len(plan.steps)} steps")


if __name__ == "__main__":
    main()
