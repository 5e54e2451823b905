"""`load`: the worst record by the events that are due in a second, in calm times and while moving; Megaphone's figure 19."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from measuring import Bench
from plots import FAINT, INK, legend, titled
from targets import Row, Target

from nexmark.figures import pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import LOADS, add_options
from nexmark.figures.stage import Pace, recorded
from nexmark.figures.ways import BASELINE, OPTIMIZED, Rebalance

MEASURED = (BASELINE, OPTIMIZED)
KEPT_UP_SECONDS = 1.0
"""A query whose calm p99 is above does not keep up; the paper's own line is also at one second."""


def options(parser: ArgumentParser) -> None:
    """Rates."""
    parser.add_argument("--query", default="q3", choices=list(LOADS))
    parser.add_argument(
        "--rates", type=int, nargs="+", default=[25_000, 100_000, 400_000], help="events due in a second"
    )
    parser.add_argument("--bins", type=int, default=256)
    add_options(parser)


def count(options: Namespace, pace: Pace) -> int:
    """Measured moves of all rates."""
    return len(options.rates) * pace.count(MEASURED)


def run(running: Bench, options: Namespace, pace: Pace) -> Rows:
    """Each rate in turn, over a state that was filled again."""
    for rate in options.rates:
        load = replace(LOADS[options.query].chosen(options), rate=rate)
        found = recorded(running, options.query, load, options.bins, Rebalance(), MEASURED, pace)
        yield from ({"query": options.query, "rate": rate, **row} for row in found.rows())


def sentence(rows: Sequence[Row]) -> str:
    """Up to which rate latency stays below a second."""
    parts = []
    for what, column, when in (
        ("in calm times (p99)", "calm_p99_s", prose.is_prepared),
        ("in the median prepared move", "worst_median_s", prose.is_prepared),
        ("in the median move all at once", "worst_median_s", prose.is_at_once),
    ):
        held = [row["rate"] for row in rows if when(row) and row[column] <= KEPT_UP_SECONDS]
        parts.append(f"up to {max(held):,} events/s {what}" if held else f"at no measured rate {what}")
    return f"Records are at most {KEPT_UP_SECONDS:g} s late {', '.join(parts)}."


def paint(figure: Any, rows: Sequence[Row]) -> None:
    """Worst record and calm p99 by rate."""
    axes = figure.subplots()
    pictures.against(axes, rows, "rate", "worst_median_s", lambda row: str(row["strategy"]))
    still = sorted((row for row in rows if prose.is_prepared(row)), key=lambda row: row["rate"])
    axes.plot([row["rate"] for row in still], [row["calm_p99_s"] for row in still], "o:", color=FAINT, label="calm p99")
    axes.set_xscale("log")
    pictures.plain_numbers(axes.xaxis)
    titled(axes, "worst record of the median move, s", "")
    axes.set_xlabel("events due in a second", color=INK)
    legend(axes, 3)


LOAD = Experiment(
    name="load",
    title="Offered load",
    paper="Megaphone, figure 19",
    finding=(
        "Latency in calm times is flat up to 16,000,000 events a second, and 32,000,000 are too many. Fluid and batched moves stay below a "
        "second up to 4,000,000. At the same throughput they hold latency targets that are 10 to 100 times lower than all at once."
    ),
    method="One query, filled again for each rate; of its events, 8 % are persons and auctions, which it reads.",
    minutes=3,
    case=("query", "rate", "strategy"),
    columns=(
        *("query", "rate", "strategy", "state_rows", "moves", "calm_p50_s", "calm_p99_s", "worst_median_s", "worst_s"),
        *("spike_median", "seconds", "skipped"),
    ),
    targets=(
        Target("worst record of the median prepared move", "worst_median_s", 1.0, of=prose.is_prepared, unit=" s"),
    ),
    named=lambda row: f"{row['query']}, {row['rate']:,} events/s, {row['strategy']}",
    sentence=sentence,
    paint=paint,
    options=options,
    quick={"rates": [500, 1000], "bins": 16, "size": 0.01},
    count=count,
    run=run,
)
