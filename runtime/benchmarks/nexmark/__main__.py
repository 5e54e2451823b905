"""The command line: ``python -m nexmark``, or ``make nexmark``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from nexmark import page, runs
from nexmark.moves import STRATEGIES
from nexmark.queries import QUERIES

EPILOG = """\
  make nexmark                                       every query against the oracle: about a quarter of an hour on two cores
  make nexmark NEXMARK="correct q5 q8"               only these
  make nexmark NEXMARK="correct --every-strategy"    four moved runs of each query instead of one
  make nexmark NEXMARK="correct --seed 7 --events 400000 --steps 80"
  make nexmark NEXMARK=rate                          rows a second, in turns with Spark's own
  make nexmark NEXMARK=latency                       record latency while state moves
  make nexmark NEXMARK=page                          the results as docs/nexmark.md, with plots

Exit status of `correct`: 0 if every run of every query was equal, else 1. `python -m nexmark COMMAND --help` explains each option.
Close everything else before `rate` and `latency`: on two cores, any other work affects the figures.
"""


class Shown(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Every default is shown."""


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m nexmark",
        description="NEXMark on PySpark: Q0 to Q22 on Spark and on binshift, against DuckDB.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _correct(commands.add_parser("correct", help="compare every query with the oracle", formatter_class=Shown))
    _rate(commands.add_parser("rate", help="rows a second, in turns with Spark", formatter_class=Shown))
    _latency(commands.add_parser("latency", help="record latency while state moves", formatter_class=Shown))
    shown = commands.add_parser("page", help="write docs/nexmark.md and its plots from the results")
    shown.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    commands.add_parser("list", help="the queries with their operators")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    known: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "correct": runs.correct,
        "rate": runs.rate,
        "latency": runs.latency,
        "page": lambda options: page.write(check=options.check),
        "list": lambda _: listed(),
    }
    options = arguments(given)
    return known[options.command](options)


def listed() -> int:
    """Print the queries."""
    for each in QUERIES.values():
        print(f"{each.name:10} {each.mode:7} {', '.join(each.state) or 'no state':36} {each.title}")
    return 0


def _chosen(parser: argparse.ArgumentParser, default: Sequence[str]) -> None:
    names = sorted(QUERIES)
    parser.add_argument(
        "queries", nargs="*", choices=[*names, []], default=list(default), metavar="QUERY", help="of `list`"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the generator")
    parser.add_argument("--bins", type=int, default=1024, help="of binshift's state")
    parser.add_argument("--group", type=int, default=100, help="event numbers are shuffled in groups of so many")
    parser.add_argument("--in-flight", type=int, default=100, help="auctions that are open at the same time")
    parser.add_argument("--event-rate", type=int, default=1000, help="events in a second of event time")


def _correct(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run each query on Spark, on binshift, and on binshift with moves and a killed executor; compare the rows."
    )
    _chosen(parser, [name for name, query in QUERIES.items() if not query.needs_processor])
    parser.add_argument("--events", type=int, default=200_000, help="in all")
    parser.add_argument("--steps", type=int, default=40, help="batches with data")
    parser.add_argument(
        "--delayed", type=int, default=10, help="one event in so many is delayed by up to 3 s; 0 for none"
    )
    parser.add_argument(
        "--every-strategy", action="store_true", help="a moved run for each strategy, not one with two of them"
    )
    parser.add_argument(
        "--drivers", nargs="*", default=["q8", "q17"], metavar="QUERY", help="queries whose driver is killed"
    )
    parser.add_argument("--no-save", action="store_true", help="keep no results")


def _rate(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Rows a second of each query on Spark (RocksDB with changelog, 2 partitions) and on binshift, in turns."
    )
    _chosen(parser, [name for name, query in QUERIES.items() if not query.needs_processor])
    parser.add_argument("--batch", type=int, default=50_000, help="events of a batch")
    parser.add_argument("--turns", type=int, default=2, help="turns of each system")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a turn")
    parser.add_argument("--warm-seconds", type=float, default=10.0, help="unmeasured seconds of each system")
    parser.add_argument("--no-save", action="store_true", help="keep no results")


def _latency(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Record latency in an open loop: calm, while half of the state moves, and while a quarter moves back."
    )
    _chosen(parser, ["q3", "q5", "q8", "q11", "q20"])
    parser.add_argument("--strategy", nargs="+", choices=STRATEGIES, default=["Optimized", "AllAtOnce"])
    parser.add_argument("--rate", type=int, default=5000, help="events due per second")
    parser.add_argument("--prefill", type=int, default=500_000, help="events before the clock starts")
    parser.add_argument("--batch-size", type=int, default=256, help="bins per step, for Batched and Optimized")
    parser.add_argument("--settle-epochs", type=int, default=30, help="unmeasured epochs")
    parser.add_argument("--calm-seconds", type=float, default=15.0, help="measured seconds before each move")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each case")
    parser.add_argument("--no-save", action="store_true", help="keep no results")


if __name__ == "__main__":
    sys.exit(main())
