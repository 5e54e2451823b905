"""`memory`: the workers' memory while a quarter of a large state moves; Megaphone's figure 20."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from footprint import watched
from measuring import Bench
from plots import INK, legend, titled
from targets import Row, Target

from nexmark.figures import pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import GROWING, add_options
from nexmark.figures.stage import Pace, ended, filled, shot
from nexmark.figures.ways import OPTIMIZED, WAYS, Rebalance, chosen


def options(parser: ArgumentParser) -> None:
    """One large state."""
    parser.add_argument("--query", default="q3", choices=list(GROWING))
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="how bins move")
    parser.add_argument("--times", type=float, default=32, help="the state, as a multiple of the smallest of `state`")
    parser.add_argument("--bins", type=int, default=1024)
    add_options(parser)


def count(options: Namespace, pace: Pace) -> int:
    """A move of each way."""
    return len(options.ways)


def run(running: Bench, options: Namespace, pace: Pace) -> Rows:
    """Each way once, over the same state."""
    load, shift = GROWING[options.query].chosen(options, options.times), Rebalance()
    shots, memory = [], {}
    with filled(running, options.query, load, options.bins, pace) as started:
        shift.prepare(started, OPTIMIZED)
        shift.move(started, OPTIMIZED)
        for way in chosen(options.ways):
            with watched(running.cluster) as found:
                shots.append(shot(started, shift, way, pace))
            memory[way.name] = found.columns() | {"_memory": found.series(shots[-1].began)}
            pace.done()
        result = ended(started, load, shots)
    yield from (
        {"query": options.query, "bins": options.bins, **row, **memory[row["strategy"]]} for row in result.rows()
    )


def sentence(rows: Sequence[Row]) -> str:
    """How much more memory."""
    prepared, at_once = (
        prose.between([100 * each for each in prose.of(rows, "more_own_memory", when)], " %")
        for when in (prose.is_prepared, prose.is_at_once)
    )
    return f"While bins move, all workers together need {prepared} more memory if the move is prepared, and {at_once} more all at once."


def paint(figure: Any, rows: Sequence[Row]) -> None:
    """Memory over time."""
    axes = figure.subplots()
    for row in rows:
        at, mib = zip(*row["_memory"], strict=True)
        axes.plot(at, mib, color=pictures.color(row["strategy"]), linewidth=1.4, label=row["strategy"])
    axes.axvline(0, color=INK, linewidth=0.6)
    titled(axes, "own memory of all workers, MiB", "")
    axes.set_xlabel("seconds after the request", color=INK)
    legend(axes, 4)


MEMORY = Experiment(
    name="memory",
    title="Memory",
    paper="Megaphone, figure 20",
    finding=(
        "Of 35 GiB in each process, moving all at once needs about 30 GiB more while it lasts, because serialized state waits for the "
        "network. Fluid and batched moves need no notable amount."
    ),
    method=(
        "A large state, each way once. Memory is that of the workers' processes, JVM and Python, without files: stores are files, which the "
        "system can drop and read again. It is sampled four times a second, from before the unmeasured move to the end of the calm time."
    ),
    minutes=7,
    case=("query", "strategy"),
    columns=(
        *("query", "strategy", "state_rows", "state_mib", "own_mib_before", "own_mib_max", "more_own_memory"),
        *("worst_median_s", "seconds"),
    ),
    targets=(Target("more memory while moving", "more_own_memory", 0.05, of=prose.is_prepared),),
    named=lambda row: f"{row['query']}, {row['strategy']}",
    sentence=sentence,
    paint=paint,
    options=options,
    quick={"times": 1.0, "bins": 8, "size": 0.02, "ways": ["all-at-once", "optimized"]},
    count=count,
    run=run,
)
