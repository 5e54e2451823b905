"""`latency`: latency over time while a quarter of the state moves between fixed workers; Megaphone's figures 1 and 5 to 12."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial

from measuring import Bench
from targets import Row, Target

from nexmark.figures import pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import LOADS, add_options, add_queries
from nexmark.figures.stage import Pace, recorded
from nexmark.figures.ways import WAYS, Rebalance, Rescale, chosen

COLUMNS = ("query", "strategy", "state_rows", "state_mib", "moves", "calm_p50_s", "calm_p99_s", "worst_median_s")
COLUMNS_OF_MOVES = (*COLUMNS, "worst_s", "spike_median", "spike_worst", "seconds", "skipped")


def options(parser: ArgumentParser, queries: Sequence[str], ways: Sequence[str]) -> None:
    """Queries and ways."""
    add_queries(parser, LOADS, queries)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(ways), help="how bins move")
    parser.add_argument("--bins", type=int, default=256)
    add_options(parser)


def count(options: Namespace, pace: Pace) -> int:
    """Measured moves of all queries."""
    return len(options.queries) * pace.count(chosen(options.ways))


def run(shift: type[Rebalance | Rescale], running: Bench, options: Namespace, pace: Pace) -> Rows:
    """Each query in turn."""
    for query in options.queries:
        load = LOADS[query].chosen(options)
        found = recorded(running, query, load, options.bins, shift(), chosen(options.ways), pace)
        yield from ({"query": query, **row} for row in found.rows())


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['query']}, {row['strategy']}"


TARGETS = (
    Target("worst record of the median prepared move over calm p99", "spike_median", 1.1, of=prose.is_prepared),
    Target("the same of the worst prepared move", "spike_worst", 1.25, of=prose.is_prepared),
    Target("epochs skipped by prepared moves", "skipped", 0, of=prose.is_prepared),
)
QUICK = {"queries": ["q3"], "ways": ["all-at-once", "optimized"], "bins": 16, "size": 0.01}

LATENCY = Experiment(
    name="latency",
    title="Latency over time",
    paper="Megaphone, figures 1 and 5 to 12",
    finding=(
        "At 4,000,000 events a second, a quarter of the state that moves all at once delays records by more than 100 ms in Q3, by more than "
        "2 s in Q4, Q6 and Q7, and tenfold in Q5. Batched moves stay at about 10 ms in Q3 and at or below 100 ms in Q4, Q6 and Q7; in Q5 "
        "they cannot be distinguished from its windows. Q1 and Q2 have no state and show no effect."
    ),
    method=(
        "Half of the bins of two of four workers move away, which is not measured, and back, which is. All four workers are active "
        "throughout. Each query is filled once, and the four ways take turns; a fluid move takes long and is measured once."
    ),
    minutes=40,
    rounds=3,
    case=("query", "strategy"),
    columns=COLUMNS_OF_MOVES,
    targets=TARGETS,
    named=named,
    sentence=prose.spikes,
    paint=partial(pictures.over_time, by="query"),
    options=partial(options, queries=list(LOADS), ways=list(WAYS)),
    quick=QUICK,
    count=count,
    run=partial(run, Rebalance),
)
