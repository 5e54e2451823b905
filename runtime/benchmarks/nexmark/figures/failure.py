"""`failure`: an executor is killed: while bins move, in calm times, and with standby copies of its bins; what records notice.

That results stay right is `correct`'s.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from latency import Latencies, latencies_of
from measuring import Bench, await_batch, await_true, is_whole
from targets import Row

from nexmark.figures import pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import LOADS, add_options, add_queries
from nexmark.figures.spikes import Shot, calm, recovered, together
from nexmark.figures.stage import Pace, filled
from nexmark.figures.ways import FLUID, MOVE_SECONDS_MAX, WORKERS, Rescale
from nexmark.kills import VICTIM
from nexmark.moves import moved_in

CALM, MOVING = "killed in calm times", "killed while bins move"
STANDBY = "killed in calm times, with standby copies"
FILLED = ((0, (CALM, MOVING)), (1, (STANDBY,)))
"""The standby copies of each bin, and what is measured with them: the query is filled for each."""
SYSTEMS = [system for _, systems in FILLED for system in systems]
POLL_SECONDS = 0.02


def options(parser: ArgumentParser) -> None:
    """Queries."""
    add_queries(parser, LOADS, ["q3"])
    parser.add_argument("--bins", type=int, default=256)
    add_options(parser)
    parser.add_argument("--after-seconds", type=float, default=15.0, help="measured after the query is whole again")


def count(options: Namespace, pace: Pace) -> int:
    """Kills of all queries."""
    return len(options.queries) * pace.rounds * len(SYSTEMS)


def run(running: Bench, options: Namespace, pace: Pace) -> Rows:
    """Each query without and with standby copies; kinds of kill in turn, over the same state."""
    running.spark.sparkContext.setLogLevel("OFF")  # Spark reports the lost executor in many lines
    for query in options.queries:
        load = LOADS[query].chosen(options)
        for standbys, systems in FILLED:
            with filled(running, query, load, options.bins, pace, standbys=standbys) as started:
                shots = []
                for number in range(pace.rounds):
                    for system in systems if number % 2 == 0 else reversed(systems):
                        shots.append(killed(running, started, system, options.after_seconds, pace))
                        pace.done()
                found = latencies_of(started.recentProgress, load.prefill, load.rate)
                yield from ({"query": query, **row} for row in rows_of(found, systems, shots))


def rows_of(found: Latencies, systems: Sequence[str], shots: Sequence[tuple[Shot, Shot]]) -> Rows:
    """The figures of these kinds of kill, from calm times and the kills after them."""
    before = [each for each, _ in shots]
    latest = max(calm(found, before), default=math.inf)
    for system in systems:
        own = [kill for _, kill in shots if kill.way == system]
        took = [recovered(found, latest, kill.began) for kill in own]
        recovery = {"recovered_s": sorted(took)[len(took) // 2], "recovered_worst_s": max(took)}
        yield {"strategy": system, **together(found, own, before), **recovery}


def killed(running: Bench, started: Any, system: str, after_seconds: float, pace: Pace) -> tuple[Shot, Shot]:
    """Kill an executor after a calm time, perhaps after the first bins of a move from two workers to four; wait until all is whole."""
    Rescale().prepare(started, FLUID) if system == MOVING else _whole(started)
    time.sleep(pace.settle_seconds)
    calm_from, before = time.time(), started.epoch
    time.sleep(2 * pace.calm_seconds)
    calm_to = time.time()
    if system == MOVING:
        started.rescale(WORKERS, **FLUID.options(started.route.bins))
        _await(lambda: moved_in(each for each in started.timings if each.epoch > before) > 0)
    moved = moved_in(each for each in started.timings if each.epoch > before)
    began = time.time()
    for pid in running.cluster.executor_pids(VICTIM):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await_batch(started, started.epoch + 3, MOVE_SECONDS_MAX)
    _whole(started)
    ended = time.time()
    time.sleep(after_seconds)
    kill = Shot(system, calm_to, began, ended, time.time(), {"moved_before": moved if system == MOVING else None})
    return Shot(system, calm_from, calm_to, calm_to, calm_to), kill


def _whole(started: Any) -> None:
    """Wait until every migration has ended, all workers own bins, and every standby copy exists."""
    _await(lambda: is_whole(started, WORKERS))


def _await(holds: Callable[[], bool]) -> None:
    await_true(holds, MOVE_SECONDS_MAX, POLL_SECONDS)


def sentence(rows: Sequence[Row]) -> str:
    """How long records are late."""
    late = {name: prose.between(prose.of(rows, "recovered_s", prose.way(name)), " s") for name in SYSTEMS}
    return (
        f"Records are as early again as before {late[CALM]} after a kill in calm times, {late[MOVING]} after one while bins move, "
        f"and {late[STANDBY]} after one in calm times with standby copies (median). A move continues to its end."
    )


FAILURE = Experiment(
    name="failure",
    title="Failures",
    paper="Rhino, failures; not in Megaphone, which leaves failures to its host",
    finding=(
        "Rhino uses its handover for failures too: a replica takes over. Megaphone, and most systems after it, handle "
        "a failure while state moves not at all or in part."
    ),
    method=(
        "An executor that owns bins is ended by SIGKILL, in calm times and after the first bins of a fluid move from two workers to four. "
        "Without standby copies, another executor starts and loads the bins from the log; with them (`standbyReplicas: 1`), the bins flip to "
        "their copies, as to Rhino's replicas, while the other executor starts on the same two cores."
    ),
    minutes=9,
    case=("query", "strategy"),
    columns=(
        *(
            "query",
            "strategy",
            "moves",
            "moved_before",
            "calm_p99_s",
            "worst_median_s",
            "worst_s",
            "silent_s",
            "recovered_s",
        ),
        "recovered_worst_s",
    ),
    targets=(),
    named=lambda row: f"{row['query']}, {row['strategy']}",
    sentence=sentence,
    paint=partial(pictures.over_time, by="query", columns=1),
    options=options,
    quick={"bins": 16, "size": 0.01, "after_seconds": 2.0},
    count=count,
    run=run,
)
