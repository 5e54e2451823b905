"""The commands of the experiments: options with help that explains the experiment, progress, results."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from archive import save
from measuring import Bench, bench
from options import WATCH
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tables import cell, text
from targets import Row, verdicts

from nexmark.engines import CONF
from nexmark.figures.all import EXPERIMENTS
from nexmark.figures.experiment import Experiment
from nexmark.figures.stage import Pace, warm
from nexmark.figures.ways import WORKERS

QUICK: Mapping[str, object] = {
    "rate": 1000,
    "warm_seconds": 0.0,
    "rounds": 1,
    "settle_epochs": 4,
    "settle_seconds": 0.2,
    "calm_seconds": 1.0,
    "no_save": True,
    "quick": True,
}
EVERY = "experiments"
WIDTH = 110
EPILOG = """\
Close everything else first: on two cores, any other work changes the figures. Afterwards `make nexmark NEXMARK=page` writes the section
and the plot. --quick takes seconds; its figures have no meaning and are not kept.
"""


class Shown(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Every default is shown."""


def add(commands: Any) -> None:
    """Add a command for each experiment."""
    for each in EXPERIMENTS.values():
        parser = commands.add_parser(
            each.name,
            help=f"{each.title.lower()}: {each.paper}",
            description=described(each),
            epilog=EPILOG,
            formatter_class=Shown,
        )
        each.options(parser)
        _pace(parser, each.rounds)
    every = commands.add_parser(
        EVERY, help="all experiments, one after the other, on one cluster", formatter_class=Shown
    )
    every.add_argument("--quick", action="store_true", help="a test run of all of them; nothing is kept")


def described(experiment: Experiment) -> str:
    """What the help of a command explains."""
    parts = {"Repeats": experiment.paper, "Finding": experiment.finding, "Here": experiment.method}
    texts = [textwrap.fill(f"{name}: {text}", WIDTH) for name, text in parts.items()]
    return "\n".join([f"{experiment.title}; about {experiment.minutes} minutes on two cores.\n", *texts])


def _pace(parser: argparse.ArgumentParser, rounds: int) -> None:
    usual = Pace()
    parser.add_argument("--rounds", type=int, default=rounds, help="measured moves of each way; fluid: one")
    parser.add_argument(
        "--settle-epochs", type=int, default=usual.settle_epochs, help="not measured, after each filling"
    )
    parser.add_argument(
        "--settle-seconds", type=float, default=usual.settle_seconds, help="not measured, between moves"
    )
    parser.add_argument(
        "--calm-seconds", type=float, default=usual.calm_seconds, help="measured before and after each move"
    )
    parser.add_argument("--warm-seconds", type=float, default=40.0, help="not measured, before the first filling")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, seconds, nothing kept: a test run")
    parser.add_argument("--no-save", action="store_true", help="keep no results")


def with_quick(parse: Any, commands: Any, given: Any) -> argparse.Namespace:
    """Parse the command line; with ``--quick``, other defaults for what is not given."""
    options: argparse.Namespace = parse(given)
    if options.command in EXPERIMENTS and options.quick:
        commands.choices[options.command].set_defaults(**QUICK, **EXPERIMENTS[options.command].quick)
        options = parse(given)
    return options


def run(options: argparse.Namespace) -> int:
    """Measure one experiment on a cluster of its own."""
    WATCH.start()
    with bench(WORKERS, CONF) as running:
        warm(running, options.warm_seconds)
        measure(running, EXPERIMENTS[options.command], options)
    return 0


def run_all(parse: Callable[[Sequence[str]], argparse.Namespace], *, quick: bool) -> int:
    """Measure all of them with their usual options on one cluster; the one that kills executors is the last."""
    WATCH.start()
    each = [parse([name, *(["--quick"] if quick else [])]) for name in EXPERIMENTS]
    with bench(WORKERS, CONF) as running:
        warm(running, each[0].warm_seconds)
        for options in each:
            measure(running, EXPERIMENTS[options.command], options)
    return 0


def measure(running: Bench, experiment: Experiment, options: argparse.Namespace) -> None:
    """Measure, print, and keep each row as soon as it is known: an experiment takes minutes and can be interrupted."""
    pace = Pace(options.rounds, options.settle_epochs, options.settle_seconds, options.calm_seconds)
    rows: list[Row] = []
    with _progress(experiment.name, experiment.count(options, pace)) as done:
        for row in experiment.run(running, options, replace(pace, done=done)):
            rows.append(row)
            print(brief(experiment, row), flush=True)
            if not options.no_save and not getattr(options, "fixed", False):
                save(experiment.archive, [row], experiment.case, elsewhere=WATCH.cores())
    print(text(shown(experiment, rows)))
    print(text(verdicts(rows, experiment.targets, experiment.named)))
    print(experiment.sentence(rows), flush=True)


def brief(experiment: Experiment, row: Row) -> str:
    """A row in one line, while others are still measured."""
    worst, calm, took = (cell(row[column]) for column in ("worst_median_s", "calm_p99_s", "seconds"))
    return f"{experiment.named(row)}: worst record {worst} s, calm p99 {calm} s, a move takes {took} s"


def shown(experiment: Experiment, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The columns that are for reading."""
    return [{column: row.get(column) for column in experiment.columns} for row in rows]


@contextmanager
def _progress(name: str, total: int) -> Any:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("moves"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task(name, total=total)
        yield lambda: progress.advance(task)
