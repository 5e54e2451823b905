"""The command line: ``python -m nexmark``, or ``make nexmark``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from binshift.errors import InvalidSettings
from binshift.settings import Settings
from nexmark import page, runs, speed
from nexmark.figures import command
from nexmark.figures.all import EXPERIMENTS
from nexmark.queries import QUERIES
from nexmark.suite import RUNS

EPILOG = """\
  make nexmark                                       every query against the oracle: calm, moved, killed
  make nexmark NEXMARK="correct q5 q8"               only these
  make nexmark NEXMARK="correct --runs calm,fluid"   only without moves and with moves of single bins
  make nexmark NEXMARK="correct --seed 7 --events 400000 --steps 80"
  make nexmark NEXMARK="speed q5 q8"                 how fast they are on binshift and on Spark
  make nexmark NEXMARK=experiments                   all experiments of the papers, about 100 minutes
  make nexmark NEXMARK="latency q3 --quick"          an experiment of a paper, as a test run of seconds
  make nexmark NEXMARK="latency --help"              what it repeats, what the paper found, how long it takes
  make nexmark NEXMARK=page                          the results as docs/nexmark.md

Exit status of `correct`: 0 if every run of every query was equal, else 1. `python -m nexmark COMMAND --help` explains each option.
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
    _speed(commands.add_parser("speed", help="compare the speed with Spark's", formatter_class=Shown))
    command.add(commands)
    shown = commands.add_parser("page", help="write docs/nexmark.md from the results")
    shown.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    commands.add_parser("list", help="the queries with their operators")
    return command.with_quick(parser.parse_args, commands, given)


def main(given: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    known: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "correct": runs.correct,
        "speed": lambda options: speed.with_inputs(options, runs.config_of(options, options.delayed)),
        "page": lambda options: page.write(check=options.check),
        "list": lambda _: listed(),
        **dict.fromkeys(EXPERIMENTS, command.run),
        command.EVERY: lambda options: command.run_all(arguments, quick=options.quick),
    }
    options = arguments(given)
    return known[options.command](options)


def listed() -> int:
    """Print the queries."""
    for each in QUERIES.values():
        print(f"{each.name:10} {each.mode:7} {', '.join(each.state) or 'no state':36} {each.title}")
    return 0


def _chosen(parser: argparse.ArgumentParser, default: Sequence[str], bins: int) -> None:
    # `choices` would compare the whole default list with each choice.
    parser.add_argument("queries", nargs="*", type=_known, default=list(default), metavar="QUERY", help="of `list`")
    parser.add_argument("--seed", type=int, default=1, help="of the generator")
    parser.add_argument("--bins", type=_bins, default=bins, help="of binshift's state")
    parser.add_argument("--group", type=int, default=100, help="event numbers are shuffled in groups of so many")
    parser.add_argument("--in-flight", type=int, default=100, help="auctions that are open at the same time")
    parser.add_argument("--event-rate", type=int, default=1000, help="events in a second of event time")
    parser.add_argument(
        "--delayed", type=int, default=10, help="one event in so many is delayed by up to 3 s; 0 for none"
    )
    parser.add_argument("--no-save", action="store_true", help="keep no results")


def _bins(given: str) -> int:
    try:
        return Settings(bins=int(given)).bins
    except InvalidSettings as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong


def _known(name: str) -> str:
    if name not in QUERIES:
        raise argparse.ArgumentTypeError(f"no query is named {name!r}: use one of {', '.join(QUERIES)}")
    return name


def _runs(given: str) -> tuple[str, ...]:
    names = given.split(",")
    if wrong := [name for name in names if name not in RUNS]:
        raise argparse.ArgumentTypeError(f"there is no run {wrong[0]!r}; there are {', '.join(RUNS)}")
    return tuple(name for name in RUNS if name in names)


def _more_than(least: int) -> Callable[[str], int]:
    """Takes whole numbers above ``least``."""

    def number(given: str) -> int:
        if int(given) <= least:
            raise argparse.ArgumentTypeError(f"{given} is not above {least}")
        return int(given)

    return number


def _correct(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run each query on Spark and on binshift, where its bins move and processes are killed, and compare the rows with the "
        "oracle and with each other."
    )
    _chosen(parser, list(QUERIES), bins=16)
    parser.add_argument(
        "--runs", type=_runs, default=",".join(RUNS), metavar="RUN,...", help="of binshift; calm is Spark's too"
    )
    parser.add_argument("--events", type=int, default=48_000, help="in all")
    parser.add_argument("--steps", type=int, default=24, help="batches with data")
    parser.add_argument(
        "--kill-steps", type=int, default=16, help="batches with data of runs with a kill, which read the first ones"
    )
    parser.add_argument("--at-once", type=int, default=2, help="queries that run at the same time")


def _speed(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run each query with state on Spark and on binshift in turn, over the same events, and compare their speed."
    )
    _chosen(parser, [query.name for query in QUERIES.values() if query.state], bins=256)
    parser.add_argument("--events", type=int, default=800_000, help="in all")
    unmeasured = f"batches, of which the first {speed.WARM_BATCHES} are not measured"
    parser.add_argument("--steps", type=_more_than(speed.WARM_BATCHES), default=40, help=unmeasured)


if __name__ == "__main__":
    sys.exit(main())
