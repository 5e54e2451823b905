"""The commands that run queries: cluster, progress, and results as JSON."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from archive import Row, save
from measuring import bench
from rich.progress import track
from tables import text

from nexmark.config import Config
from nexmark.correct import Checked, Judge, Places, Runner
from nexmark.drivers import SLOTS
from nexmark.engines import SHORT
from nexmark.inputs import Inputs
from nexmark.moves import OUT
from nexmark.oracle import Oracle
from nexmark.queries import QUERIES
from nexmark.suite import KILLED_AT_ONCE, Suite

CASE = ("query", "system")


def correct(options: Namespace) -> int:
    """Compare every run of every query with the oracle; 1 if a run differs."""
    queries = [QUERIES[name] for name in options.queries]
    suite = Suite(queries, options.runs, options.bins, options.at_once)
    with tempfile.TemporaryDirectory(prefix="nexmark-") as name:
        inputs = Inputs(Path(name) / "in", config_of(options, options.delayed), options.events, options.steps)
        checked = _checked(suite, inputs, options.kill_steps, Path(name))
        found = track(checked, description="runs", total=suite.count())
        rows = list(_kept(_reported(found), save_each=not options.no_save))
    print(text(rows))
    return 1 if any(row["verdict"] == "differs" for row in rows) else 0


def _checked(suite: Suite, inputs: Inputs, kill_steps: int, folder: Path) -> Iterator[Checked]:
    places = Places(folder)
    with bench(OUT, SHORT, SLOTS * max(suite.at_once, KILLED_AT_ONCE)) as running:
        inputs.write(running.spark)
        judge = Judge(Oracle(inputs.by_kind, inputs.steps), inputs, places)
        yield from suite.calm_and_moved(Runner(running.spark, inputs, places), judge)
        first = inputs.beginning(min(kill_steps, inputs.steps))
        judge = Judge(Oracle(first.by_kind, first.steps), first, places, is_beginning=first.steps < inputs.steps)
        yield from suite.executor_killed(running, Runner(running.spark, first, places), judge)
    yield from suite.driver_killed(folder / "drivers", judge)


def _kept(found: Iterable[Checked], *, save_each: bool) -> Iterator[Row]:
    """The rows of the results; each is saved at once, as the runs take minutes and may be interrupted."""
    for each in found:
        row = each.row()
        if save_each:
            save("nexmark_correct", [row], CASE)
        yield row


def _reported(found: Iterable[Checked]) -> Iterator[Checked]:
    for each in found:
        moved = f", {each.proof.moved} bins moved" if each.proof.moved else ""
        line = f"{each.query} {each.system}: {each.verdict}, {each.rows:,} rows, {each.seconds:.0f} s{moved}"
        print(line, flush=True)
        for problem in [*each.problems, *([each.refused] if each.refused else [])]:
            print(f"    {problem}", flush=True)
        yield each


def config_of(options: Namespace, delayed: int) -> Config:
    """The generator that the options describe."""
    return Config(
        seed=options.seed,
        rate=options.event_rate,
        in_flight_auctions=options.in_flight,
        group=options.group,
        delayed_share=delayed,
    )
