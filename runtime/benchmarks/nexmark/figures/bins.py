"""`bins`: calm times and moves by the number of bins; Megaphone's figures 13 to 16."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from measuring import Bench
from plots import INK, OURS, legend, titled
from targets import Row, Target

from nexmark.figures import pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import LOADS, add_options
from nexmark.figures.stage import Pace, recorded
from nexmark.figures.ways import BASELINE, OPTIMIZED, Rebalance

MEASURED = (BASELINE, OPTIMIZED)
WALL_BITS = 12
"""Up to so many bits of a bin's number the paper finds no effect."""


def options(parser: ArgumentParser) -> None:
    """The numbers of bins."""
    parser.add_argument("--query", default="q3", choices=list(LOADS))
    parser.add_argument("--bits", type=int, nargs="+", default=[4, 8, 12, 16], help="2^BITS bins each")
    add_options(parser)


def count(options: Namespace, pace: Pace) -> int:
    """Measured moves of all numbers of bins."""
    return len(options.bits) * pace.count(MEASURED)


def run(running: Bench, options: Namespace, pace: Pace) -> Rows:
    """Each number of bins in turn; ratios are to the first."""
    first: dict[str, Row] = {}
    for bits in options.bits:
        load = LOADS[options.query].chosen(options)
        found = recorded(running, options.query, load, 1 << bits, Rebalance(), MEASURED, pace)
        for row in found.rows():
            base = first.setdefault(row["strategy"], row)
            over = {"calm_over_first": row["calm_p50_s"] / base["calm_p50_s"]}
            yield {"query": options.query, "bins": 1 << bits, **row, **over}


def sentence(rows: Sequence[Row]) -> str:
    """Calm times up to the paper's wall and beyond it."""
    few = prose.of(rows, "calm_over_first", lambda row: row["bins"] <= 1 << WALL_BITS)
    many = prose.of(rows, "calm_over_first", lambda row: row["bins"] > 1 << WALL_BITS)
    more = f", and {prose.between(many)} times with more" if many else ""
    return f"The calm median is {prose.between(few)} times that of the fewest bins up to 2^{WALL_BITS} bins{more}. {prose.spikes(rows)}"


def paint(figure: Any, rows: Sequence[Row]) -> None:
    """Calm latency on the left, the worst record of moves on the right."""
    left, right = figure.subplots(1, 2)
    still = [row for row in rows if row["strategy"] == OPTIMIZED.name]
    for column, mark in (("calm_p50_s", "o-"), ("calm_p99_s", "o--")):
        at = sorted(still, key=lambda row: row["bins"])
        left.plot([row["bins"] for row in at], [row[column] for row in at], mark, color=OURS, label=column[5:8])
    pictures.against(right, rows, "bins", "worst_median_s", lambda row: str(row["strategy"]))
    for axes, title in ((left, "calm record latency, s"), (right, "worst record of the median move, s")):
        axes.set_xscale("log", base=2)
        titled(axes, title, "")
        axes.set_xlabel("bins", color=INK)
        legend(axes, 2)


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['bins']:,} bins, {row['strategy']}"


BINS = Experiment(
    name="bins",
    title="Number of bins",
    paper="Megaphone, figures 13 to 16",
    finding=(
        "Up to 2^12 bins, their number has hardly any effect on calm times (p99 of 2.88 ms after 2.49 ms with 2^8). With 2^14 it is 4.46 ms, "
        "with 2^16 26.2 ms, and with 2^20 more than a second. More bins lower the peak of fluid and batched moves, and do not "
        "change that of a move all at once."
    ),
    method="One query with the same state is filled again for each number of bins; a step of a move has a sixteenth of the bins.",
    minutes=5,
    case=("query", "bins", "strategy"),
    columns=(
        *("query", "bins", "strategy", "state_rows", "moves", "calm_p50_s", "calm_p99_s", "calm_over_first"),
        *("worst_median_s", "worst_s", "spike_median", "spike_worst", "seconds", "skipped"),
    ),
    targets=(
        Target(
            "calm median over that of the fewest bins, to 4,096", "calm_over_first", 1.1, of=lambda r: r["bins"] <= 4096
        ),
        Target("worst record of the median prepared move over calm p99", "spike_median", 1.1, of=prose.is_prepared),
    ),
    named=named,
    sentence=sentence,
    paint=paint,
    options=options,
    quick={"bits": [4, 6], "size": 0.01},
    count=count,
    run=run,
)
