"""The commands of the experiments: options with help that explains the experiment, progress, results."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from archive import save
from measuring import bench
from options import WATCH
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tables import text
from targets import Row, verdicts

from nexmark.engines import CONF
from nexmark.figures.all import EXPERIMENTS
from nexmark.figures.experiment import Experiment
from nexmark.figures.stage import Pace
from nexmark.figures.ways import WORKERS

QUICK: Mapping[str, object] = {
    "rate": 1000,
    "rounds": 1,
    "settle_epochs": 4,
    "settle_seconds": 0.2,
    "calm_seconds": 1.0,
    "no_save": True,
    "quick": True,
}
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
        _pace(parser)


def described(experiment: Experiment) -> str:
    """What the help of a command explains."""
    parts = {"Repeats": experiment.paper, "Finding": experiment.finding, "Here": experiment.method}
    texts = [textwrap.fill(f"{name}: {text}", WIDTH) for name, text in parts.items()]
    return "\n".join([f"{experiment.title}; about {experiment.minutes} minutes on two cores.\n", *texts])


def _pace(parser: argparse.ArgumentParser) -> None:
    usual = Pace()
    parser.add_argument("--rounds", type=int, default=usual.rounds, help="measured moves of each way; fluid: one")
    parser.add_argument(
        "--settle-epochs", type=int, default=usual.settle_epochs, help="not measured, after each filling"
    )
    parser.add_argument(
        "--settle-seconds", type=float, default=usual.settle_seconds, help="not measured, between moves"
    )
    parser.add_argument(
        "--calm-seconds", type=float, default=usual.calm_seconds, help="measured before and after each move"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, seconds, nothing kept: a test run")
    parser.add_argument("--no-save", action="store_true", help="keep no results")


def with_quick(parse: Any, commands: Any, given: Any) -> argparse.Namespace:
    """Parse the command line; with ``--quick``, other defaults for what is not given."""
    options: argparse.Namespace = parse(given)
    if getattr(options, "quick", False):
        commands.choices[options.command].set_defaults(**QUICK, **EXPERIMENTS[options.command].quick)
        options = parse(given)
    return options


def run(options: argparse.Namespace) -> int:
    """Measure, print, and keep each row as soon as it is known: an experiment takes minutes and can be interrupted."""
    WATCH.start()
    experiment = EXPERIMENTS[options.command]
    usual = Pace(options.rounds, options.settle_epochs, options.settle_seconds, options.calm_seconds)
    rows: list[Row] = []
    with bench(WORKERS, CONF) as running, _progress(experiment.name, experiment.count(options, usual)) as done:
        pace = Pace(usual.rounds, usual.settle_epochs, usual.settle_seconds, usual.calm_seconds, done)
        for row in experiment.run(running, options, pace):
            rows.append(row)
            if not options.no_save and not getattr(options, "fixed", False):
                save(experiment.archive, [row], experiment.case, elsewhere=WATCH.cores())
    print(text(shown(experiment, rows)))
    print(text(verdicts(rows, experiment.targets, experiment.named)))
    print(experiment.sentence(rows))
    return 0


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
