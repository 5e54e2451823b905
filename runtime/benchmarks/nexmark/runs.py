"""The commands that run queries: cluster, progress, and results as JSON."""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archive import save
from elsewhere import Elsewhere
from measuring import Bench, bench
from rich.progress import track
from tables import text

from binshift.local import LocalCluster
from nexmark import lag
from nexmark import rate as rates
from nexmark.config import Config
from nexmark.correct import Checked, Checker
from nexmark.driver import Task, killed_once
from nexmark.engines import CONF
from nexmark.inputs import Inputs
from nexmark.moves import scripts
from nexmark.oracle import Oracle
from nexmark.queries import QUERIES
from nexmark.results import Results, clock

CASE = ("query", "system")


def correct(options: Namespace) -> int:
    """Compare every query with the oracle; 1 if a run differs."""
    config = _config(options, options.delayed)
    with tempfile.TemporaryDirectory(prefix="nexmark-") as name:
        inputs = Inputs(Path(name) / "in", config, options.events, options.steps)
        with bench(4, CONF) as running:
            inputs.write(running.spark)
            oracle = Oracle(inputs.folder / "events")
            checker = Checker(running, inputs, oracle, options.bins)
            rows = [each.row() for each in _reported(_checked(checker, options))]
        chosen = [each for each in options.drivers if each in options.queries]
        rows += [each.row() for each in _reported(_with_killed_drivers(chosen, inputs, options, Path(name)))]
    print(text(rows))
    if not options.no_save:
        save("nexmark_correct", rows, CASE)
    return 1 if any(row["verdict"] == "differs" for row in rows) else 0


def rate(options: Namespace) -> int:
    """Compare rows a second."""
    return _measured("nexmark_rate", ("query",), _rates, 2, options)


def latency(options: Namespace) -> int:
    """Measure record latency."""
    return _measured("nexmark_latency", ("query", "move", "strategy"), _latencies, 4, options)


def _measured(name: str, case: Sequence[str], rows_of: Any, workers: int, options: Namespace) -> int:
    watch = Elsewhere()
    watch.start()
    rows: list[dict[str, Any]] = []
    with bench(workers, CONF) as running:
        for row in rows_of(running, options):
            rows.append(row)
            print(text([row]), flush=True)
            if not options.no_save:
                save(name, [row], case, elsewhere=watch.cores())
    print(text(rows))
    return 0


def _rates(running: Bench, options: Namespace) -> Iterator[dict[str, Any]]:
    for name in track(options.queries, description="queries"):
        yield rates.compare(running, QUERIES[name], options)


def _latencies(running: Bench, options: Namespace) -> Iterator[dict[str, Any]]:
    cases = [(QUERIES[name], strategy) for name in options.queries for strategy in options.strategy]
    for query, strategy in track([each for each in cases for _ in range(options.repeat)], description="moves"):
        yield lag.rescaled(running, query, options, strategy)
        yield lag.quarter_back(running, query, options, strategy)


def _checked(checker: Checker, options: Namespace) -> Iterator[Checked]:
    for place, name in enumerate(track(options.queries, description="queries")):
        yield from checker.check(QUERIES[name], scripts(options.every_strategy, place))


def _reported(found: Iterator[Checked]) -> Iterator[Checked]:
    for each in found:
        late = "" if each.moved_by is None else f", moved by batch {each.moved_by}"
        print(f"{each.query} {each.system}: {each.verdict}, {each.rows:,} rows, {each.seconds:.0f} s{late}", flush=True)
        for problem in [*each.problems, *([each.refused] if each.refused else [])]:
            print(f"    {problem}", flush=True)
        yield each


def _with_killed_drivers(names: Sequence[str], inputs: Inputs, options: Namespace, folder: Path) -> Iterator[Checked]:
    oracle = Oracle(inputs.folder / "events")
    for name in names:
        query, place = QUERIES[name], folder / f"driver-{name}"
        place.mkdir()
        found, began = Checked(name, "driver killed"), time.monotonic()
        with LocalCluster(place / "cluster", 3) as cluster:
            task = Task(
                master=cluster.url,
                conf=cluster.conf(),
                query=name,
                inputs=str(inputs.folder),
                config=asdict(inputs.config),
                events=inputs.events,
                steps=inputs.steps,
                results=str(place / "results"),
                checkpoint=str(place / "checkpoint"),
                bins=options.bins,
                to=3,
            )
            killed_once(task, place, cluster)
        rows = Results(place / "results")
        found.rows, found.seconds = rows.rows(), time.monotonic() - began
        expected = oracle.expected(query, clock(Path(task.checkpoint)) if query.by_clock else None)
        if difference := rows.against(expected, query.key):
            found.problems.append(f"oracle: {difference}")
        yield found


def _config(options: Namespace, delayed: int) -> Config:
    return Config(
        seed=options.seed,
        rate=options.event_rate,
        in_flight_auctions=options.in_flight,
        group=options.group,
        delayed_share=delayed,
    )
