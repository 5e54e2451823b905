"""`state`: the peak as the state grows, with bins growing alike; Megaphone's figures 17 and 18."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from measuring import Bench
from plots import INK, titled
from targets import Row, Target

from nexmark.figures import pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import GROWING, add_options, add_queries
from nexmark.figures.stage import Pace, recorded
from nexmark.figures.ways import BASELINE, OPTIMIZED, Rebalance

MEASURED = (BASELINE, OPTIMIZED)


def options(parser: ArgumentParser) -> None:
    """Sizes."""
    add_queries(parser, GROWING, list(GROWING))
    parser.add_argument("--times", type=float, nargs="+", default=[1, 4, 32], help="multiples of the smallest state")
    parser.add_argument(
        "--bins", type=int, default=64, help="of the smallest state; the others have so many times that"
    )
    parser.add_argument("--fixed", action="store_true", help="the same number of bins for all (figure 17); not kept")
    add_options(parser)


def count(options: Namespace, pace: Pace) -> int:
    """Measured moves of all sizes."""
    return len(options.queries) * len(options.times) * pace.count(MEASURED)


def run(running: Bench, options: Namespace, pace: Pace) -> Rows:
    """Each size of each query in turn; peaks are compared with the first."""
    for query in options.queries:
        first: dict[str, Row] = {}
        for times in options.times:
            load = GROWING[query].chosen(options, times)
            bins = options.bins if options.fixed else int(options.bins * times)
            found = recorded(running, query, load, bins, Rebalance(), MEASURED, pace)
            for row in found.rows():
                base = first.setdefault(row["strategy"], row)
                peak = {"peak_over_first": row["worst_median_s"] / base["worst_median_s"]}
                yield {"query": query, "times": times, "bins": bins, **row, **peak}


def sentence(rows: Sequence[Row]) -> str:
    """Growth of state, peak and duration, of prepared moves and all at once."""
    largest = max(row["times"] for row in rows)
    last = [row for row in rows if row["times"] == largest]
    peaks = [prose.between(prose.of(last, "peak_over_first", when)) for when in (prose.is_prepared, prose.is_at_once)]
    grown = prose.between(
        row["state_rows"] / next(each["state_rows"] for each in rows if each["query"] == row["query"]) for row in last
    )
    return (
        f"From the smallest state to one with {grown} times the rows, the peak of prepared moves becomes {peaks[0]} times as high, "
        f"and that of moves all at once {peaks[1]} times."
    )


def paint(figure: Any, rows: Sequence[Row]) -> None:
    """Peak and duration by the rows of the state; a line for each way, in the style of its query."""
    plots = figure.subplots(1, 2)
    columns = (("worst_median_s", "worst record of the median move, s"), ("seconds", "duration of a move, s"))
    for axes, (column, title) in zip(plots, columns, strict=True):
        for query, style in zip(dict.fromkeys(row["query"] for row in rows), ("o-", "s--"), strict=False):
            some = [row for row in rows if row["query"] == query]
            pictures.against(axes, some, "state_rows", column, lambda row: f"{row['strategy']}, {row['query']}", style)
        axes.set_xscale("log", base=2)
        titled(axes, title, "")
        axes.set_xlabel("rows of state, bins growing alike", color=INK)
    pictures.shared_legend(figure, plots[0])


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['query']}, {row['state_rows']:,} rows, {row['strategy']}"


STATE = Experiment(
    name="state",
    title="Size of the state",
    paper="Megaphone, figures 17 and 18",
    finding=(
        "With a fixed number of bins, peak and duration grow with the state, whatever the strategy. With bins growing alike, the peak of "
        "fluid and batched moves stays constant and only the duration grows; all at once, both grow."
    ),
    method=(
        "The state before the first measurement, the events of a window and the number of bins grow alike. The rate is the same for all "
        "sizes, and so low that the stream itself adds little."
    ),
    rounds=4,
    minutes=12,
    case=("query", "times", "strategy"),
    columns=(
        *(
            "query",
            "times",
            "bins",
            "strategy",
            "state_rows",
            "state_mib",
            "moves",
            "calm_p99_s",
            "worst_median_s",
            "worst_s",
        ),
        *("spike_median", "seconds", "peak_over_first", "skipped"),
    ),
    targets=(Target("peak over that of the smallest state", "peak_over_first", 1.2, of=prose.is_prepared),),
    named=named,
    sentence=sentence,
    paint=paint,
    options=options,
    quick={"queries": ["q3"], "times": [1.0, 2.0], "bins": 8, "size": 0.02},
    count=count,
    run=run,
)
