"""The commands that run queries: cluster, progress, and results as JSON."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from archive import save
from measuring import bench
from rich.progress import track
from tables import text

from nexmark.config import Config
from nexmark.correct import Checked, Checker
from nexmark.engines import CONF
from nexmark.inputs import Inputs
from nexmark.oracle import Oracle
from nexmark.queries import QUERIES

CASE = ("query", "system")


def correct(options: Namespace) -> int:
    """Compare every query with the oracle; 1 if a run differs."""
    config = _config(options, options.delayed)
    with tempfile.TemporaryDirectory(prefix="nexmark-") as name:
        inputs = Inputs(Path(name) / "in", config, options.events, options.steps)
        with bench(2, CONF) as running:
            inputs.write(running.spark)
            oracle = Oracle(inputs.folder / "events")
            checker = Checker(running, inputs, oracle, options.bins)
            rows = [each.row() for each in _reported(_checked(checker, options))]
    print(text(rows))
    if not options.no_save:
        save("nexmark_correct", rows, CASE)
    return 1 if any(row["verdict"] == "differs" for row in rows) else 0


def _checked(checker: Checker, options: Namespace) -> Iterator[Checked]:
    for name in track(options.queries, description="queries"):
        yield from checker.check(QUERIES[name])


def _reported(found: Iterator[Checked]) -> Iterator[Checked]:
    for each in found:
        print(f"{each.query} {each.system}: {each.verdict}, {each.rows:,} rows, {each.seconds:.0f} s", flush=True)
        for problem in [*each.problems, *([each.refused] if each.refused else [])]:
            print(f"    {problem}", flush=True)
        yield each


def _config(options: Namespace, delayed: int) -> Config:
    return Config(
        seed=options.seed,
        rate=options.event_rate,
        in_flight_auctions=options.in_flight,
        group=options.group,
        delayed_share=delayed,
    )
