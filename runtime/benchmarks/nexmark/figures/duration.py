"""`duration`: the time of a move against its peak, from single bins to all at once; Megaphone's figures 1 and 16."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from measuring import Bench
from plots import INK, titled
from targets import Row

from nexmark.figures import pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import LOADS, add_options
from nexmark.figures.stage import Pace, recorded
from nexmark.figures.ways import ALL_AT_ONCE, FLUID, OPTIMIZED, Rebalance, Way


def options(parser: ArgumentParser) -> None:
    """Steps."""
    parser.add_argument("--query", default="q3", choices=list(LOADS))
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[4, 16, 64], help="bins that a pair of workers moves in a step"
    )
    parser.add_argument("--bins", type=int, default=256)
    add_options(parser)


def ways(options: Namespace) -> list[Way]:
    """From the smallest step to all at once, which is measured with pre-copy too."""
    stepped = [
        replace(OPTIMIZED, name=f"{OPTIMIZED.name}, {step} bins", share=step / options.bins) for step in options.steps
    ]
    copied = replace(ALL_AT_ONCE, name=f"{ALL_AT_ONCE.name}, copied before", pre_copy=True)
    return [FLUID, *stepped, copied, ALL_AT_ONCE]


def count(options: Namespace, pace: Pace) -> int:
    """Measured moves of one run."""
    return pace.count(ways(options))


def run(running: Bench, options: Namespace, pace: Pace) -> Rows:
    """All steps over the same state."""
    load = LOADS[options.query].chosen(options)
    found = recorded(running, options.query, load, options.bins, Rebalance(), ways(options), pace)
    yield from ({"query": options.query, "bins": options.bins, **row} for row in found.rows())


def sentence(rows: Sequence[Row]) -> str:
    """Shortest and longest, lowest and highest."""
    short, low = (min(rows, key=lambda row: row[column]) for column in ("seconds", "worst_median_s"))
    long, high = (max(rows, key=lambda row: row[column]) for column in ("seconds", "worst_median_s"))
    times = prose.between(prose.of(rows, "seconds"), " s")
    peaks = prose.between(prose.of(rows, "worst_median_s"), " s")
    return (
        f"A move takes {times}: the shortest is {short['strategy']}, the longest {long['strategy']}. The worst record of the median move is "
        f"{peaks} late: the earliest with {low['strategy']}, the latest with {high['strategy']}."
    )


def paint(figure: Any, rows: Sequence[Row]) -> None:
    """A dot for each way."""
    axes = figure.subplots()
    for row in rows:
        axes.plot([row["seconds"]], [row["worst_median_s"]], "o", color=pictures.color(row["strategy"]))
        label, at = row["strategy"], (row["seconds"], row["worst_median_s"])
        axes.annotate(label, at, (6, 4), textcoords="offset points", fontsize=8, color=INK)
    axes.axhline(rows[0]["calm_p99_s"], color=INK, linewidth=0.6, linestyle=":")
    axes.set_xscale("log")
    pictures.plain_numbers(axes.xaxis)
    titled(axes, "worst record of the median move, s (dotted: calm p99)", "")
    axes.set_xlabel("duration of the move, s", color=INK)


DURATION = Experiment(
    name="duration",
    title="Duration against peak",
    paper="Megaphone, figures 1 and 16",
    finding=(
        "A move all at once is the shortest and has the highest peak, by orders of magnitude with 8 GB of state; a fluid one has the "
        "lowest and is the longest; batched ones lie between, and optimized ones come close to both ends."
    ),
    method="One query with the same state, moved in steps of different size, from single bins to all at once, with and without copies before.",
    minutes=3,
    case=("query", "strategy"),
    columns=(
        *(
            "query",
            "bins",
            "strategy",
            "state_rows",
            "moves",
            "calm_p99_s",
            "worst_median_s",
            "worst_s",
            "spike_median",
            "seconds",
        ),
        "skipped",
    ),
    targets=(),
    named=lambda row: f"{row['query']}, {row['strategy']}",
    sentence=sentence,
    paint=paint,
    options=options,
    quick={"steps": [4], "bins": 16, "size": 0.01},
    count=count,
    run=run,
)
