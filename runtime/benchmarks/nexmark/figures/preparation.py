"""`preparation`: the size of the state against the time of a reconfiguration, with and without copies before it; Rhino's main experiment."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from measuring import Bench
from plots import INK, titled
from targets import Row, Target

from nexmark.figures import pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import GROWING, add_options
from nexmark.figures.stage import Pace, recorded
from nexmark.figures.ways import ALL_AT_ONCE, OPTIMIZED, Rescale

WITHOUT = ALL_AT_ONCE.name
WITH = f"{ALL_AT_ONCE.name}, copied before"
MEASURED = (ALL_AT_ONCE, replace(ALL_AT_ONCE, name=WITH, pre_copy=True), OPTIMIZED)


def options(parser: ArgumentParser) -> None:
    """Sizes."""
    parser.add_argument("--query", default="q8", choices=list(GROWING))
    parser.add_argument("--times", type=float, nargs="+", default=[1, 4, 32], help="multiples of the smallest state")
    parser.add_argument("--bins", type=int, default=1024)
    add_options(parser)


def count(options: Namespace, pace: Pace) -> int:
    """Measured moves of all sizes."""
    return len(options.times) * pace.count(MEASURED)


def run(running: Bench, options: Namespace, pace: Pace) -> Rows:
    """Each size in turn."""
    for times in options.times:
        load = GROWING[options.query].chosen(options, times)
        found = recorded(running, options.query, load, options.bins, Rescale(), MEASURED, pace)
        yield from ({"query": options.query, "times": times, **row} for row in found.rows())


def sentence(rows: Sequence[Row]) -> str:
    """The pause with and without copies, at the smallest and at the largest state."""
    ends = {
        name: [row for row in sorted(rows, key=lambda row: row["times"]) if row["strategy"] == name]
        for name in (WITHOUT, WITH)
    }
    parts = [
        f"{what}, records wait up to {prose.between([some[0]['worst_median_s']], ' s')} with the smallest state and "
        f"{prose.between([some[-1]['worst_median_s']], ' s')} with the largest"
        for what, some in (("Without copies", ends[WITHOUT]), ("with them", ends[WITH]))
        if some
    ]
    took = prose.between(prose.of(rows, "seconds", lambda row: row["strategy"] != WITHOUT), " s")
    return f"{'; '.join(parts)}. From the request to the end, with its copies, a prepared move takes {took}."


def paint(figure: Any, rows: Sequence[Row]) -> None:
    """The pause on the left, the whole duration on the right."""
    styles = {WITHOUT: "o-", WITH: "s--", OPTIMIZED.name: "^-"}
    columns = (("worst_median_s", "worst record of the median move, s"), ("seconds", "from the request to the end, s"))
    plots = figure.subplots(1, 2)
    for axes, (column, title) in zip(plots, columns, strict=True):
        for name, style in styles.items():
            some = [row for row in rows if row["strategy"] == name]
            if some:
                pictures.against(axes, some, "state_rows", column, lambda row: str(row["strategy"]), style)
        axes.set_xscale("log", base=2)
        titled(axes, title, "")
        axes.set_xlabel("rows of state", color=INK)
    pictures.shared_legend(figure, plots[0])


PREPARATION = Experiment(
    name="preparation",
    title="Preparation",
    paper="Del Monte and others, Rhino: the time of a reconfiguration by the size of the state",
    finding=(
        "State that is replicated ahead by incremental checkpoints leaves only the last delta for the reconfiguration itself: 15 times "
        "faster than the best system before, with state up to terabytes, and latency lower by three orders of magnitude."
    ),
    method=(
        "Two workers to four. Without copies, the new owners load their bins while records wait; with copies, they load them before, keep them "
        "current, and apply the last deltas only. Copies begin with the request here; a standby replica would have them before."
    ),
    minutes=12,
    case=("query", "times", "strategy"),
    columns=(
        *("query", "times", "strategy", "state_rows", "state_mib", "moves", "calm_p99_s", "worst_median_s", "worst_s"),
        *("spike_median", "silent_s", "seconds"),
    ),
    targets=(
        Target(
            "worst record of the median move over calm p99",
            "spike_median",
            1.25,
            of=lambda row: row["strategy"] != WITHOUT,
        ),
    ),
    named=lambda row: f"{row['query']}, {row['state_rows']:,} rows, {row['strategy']}",
    sentence=sentence,
    paint=paint,
    options=options,
    quick={"times": [1.0, 2.0], "bins": 8, "size": 0.02},
    count=count,
    run=run,
)
