"""The order of things: environment, data, query, replay with its steps, and the check at the end.

Nothing here outlives it, and nothing waits without a limit: if a query makes no progress for a minute, the demo ends with its
log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console

import binshift
import flights
from binshift.errors import EpochFailed
from flights_demo import dataset, picture, reference, replay, report
from flights_demo.consumed import Consumed
from flights_demo.environment import Environment, demo_environment
from flights_demo.latency_log import LatencyLog
from flights_demo.replay import Feeder, Schedule
from flights_demo.report import Report
from flights_demo.results import Results, worst_routes
from flights_demo.scenario import Scenario, Step, plan_steps
from flights_demo.screen import LiveScreen, Move, Screen, View, screen_for
from flights_demo.watcher import Watcher

if TYPE_CHECKING:
    from binshift.spark.frontend.dataflow import StreamingQuery

START_SECONDS_MAX = 180.0
"""Until a primer is committed: the first epochs wait for executors and for Java to compile what it runs."""

STANDSTILL_SECONDS_MAX = 60.0
"""Without a commit although something is to be done, after which the demo gives up."""

LOOK_EVERY_SECONDS = 0.2
LATELY_SECONDS = 5.0
ROUTES_EVERY_SECONDS = 2.0
ROUTES_SHOWN = 3
ROUTE_FLIGHTS_MIN = 100


@dataclass(frozen=True)
class Options:
    """The options of the command line.

    Attributes:
        seconds: of the replay.
        rows: flights; None for all.
        workers: how many, one number after the other.
        plot: the PNG file; the numbers are written next to it.
        keep: leave the folder with logs and checkpoint.
    """

    seconds: float
    rows: int | None
    workers: tuple[int, ...]
    plot: Path
    keep: bool = False


def show(options: Options, console: Console) -> Report:
    """Run the demo.

    Raises:
        BinshiftError: something is missing here, or the query failed.
    """
    steps = plan_steps(options.workers, options.seconds)
    with demo_environment(options.workers[0], options.keep) as around:
        console.print(f"a local Spark cluster of {options.workers[0]} workers is starting, in {around.folder}")
        rows = dataset.load(options.rows)
        schedule = Schedule(len(rows), options.seconds)
        run = _demo_run(around, rows, schedule, steps, screen_for(console))
        try:
            run.run()
            console.print(f"comparing with pandas' answer over the same {len(rows):,} flights", highlight=False)
            made = run.report(rows)
        except EpochFailed:
            console.print(around.log_tail(40), markup=False, highlight=False)
            raise
    title = f"{made.rows:,} flights at {made.rate:,.0f} a second: latency while the workers change"
    picture.draw(run.log, steps, options.plot, title)
    numbers = options.plot.with_suffix(".json")
    report.write_json(made, run.log, numbers)
    for line in [f"drawn: {options.plot}   numbers: {numbers}", *report.lines(made)]:
        console.print(line, highlight=False, soft_wrap=True)
    return made


def _demo_run(
    around: Environment, rows: pd.DataFrame, schedule: Schedule, steps: list[Step], screen: Screen
) -> DemoRun:
    """Everything in its place, the query started."""
    around.at_end(screen.close)
    staged, shown = around.folder / "staged", around.folder / "flights"
    shown.mkdir()
    replay.write(dataset.arrow(rows), schedule, staged)
    results, spark, checkpoint = Results(), around.session(), around.folder / "checkpoint"
    screen.show_message(f"starting the query {flights.__file__}")
    writer = binshift.writeStream(flights.delays(flights.stream(spark, str(shown)))).queryName("flights")
    query = writer.format(results).outputMode("update").option("checkpointLocation", str(checkpoint)).start()
    around.at_end(query.stop)
    feeder, log = Feeder(schedule, staged, shown), LatencyLog(schedule)
    watcher = Watcher(query, Consumed(checkpoint), log, feeder.now)
    around.at_end(watcher.stop)
    around.at_end(feeder.stop)
    scenario = Scenario(
        steps[0].before if steps else around.cluster.workers, around.cluster, query, steps, screen.show_message
    )
    return DemoRun(query, schedule, feeder, watcher, log, scenario, results, screen)


@dataclass
class DemoRun:
    """The running demo."""

    query: StreamingQuery
    schedule: Schedule
    feeder: Feeder
    watcher: Watcher
    log: LatencyLog
    scenario: Scenario
    results: Results
    screen: Screen
    _pause: threading.Event = field(default_factory=threading.Event)
    _routes: list[tuple[str, int, float]] = field(default_factory=list)
    _routes_at: float = 0.0

    def run(self) -> None:
        """From the first file to the last row and the last step.

        Raises:
            EpochFailed: nothing was committed for too long.
            BinshiftError: the query failed.
        """
        self.watcher.start()
        for _ in range(self.schedule.primers):
            self.feeder.prime()
            self._until(self._primed, START_SECONDS_MAX)
        self.feeder.start()
        self.screen.show_message(f"the replay begins: {self.schedule.rate:,.0f} flights a second")
        self._until(self._step, STANDSTILL_SECONDS_MAX)
        self.screen.show(self._view())
        self.screen.close()

    def report(self, flights: pd.DataFrame) -> Report:
        """Stop the query and compare its last word with pandas' answer."""
        self.watcher.stop()
        self.query.stop()
        found = self.results.latest(self.query.epoch)
        differences = reference.differences(found, reference.expected(flights))
        return report.measure(self.schedule, self.log, self.scenario.steps, len(found), differences)

    def _step(self) -> bool:
        """Do what is due and show how things are; whether all is over."""
        self.scenario.advance(self.feeder.now())
        self.screen.show(self._view())
        return self.feeder.ended and self.log.complete and self.scenario.ended

    def _primed(self) -> bool:
        """Whether the primers that were fed are committed."""
        return self.log.rows >= self.schedule.rows_of(self.feeder.fed - 1)[1]

    def _until(self, done: Callable[[], bool], standstill_seconds: float) -> None:
        """Call ``done`` until it returns True, as long as epochs are committed."""
        epoch, since = self.query.epoch, time.monotonic()
        while not done():
            self._check()
            if self.query.epoch != epoch:
                epoch, since = self.query.epoch, time.monotonic()
            elif time.monotonic() - since > standstill_seconds:
                raise EpochFailed(
                    f"for {standstill_seconds:.0f} s epoch {epoch} is the newest; the log above may have the reason"
                )
            self._pause.wait(LOOK_EVERY_SECONDS)

    def _check(self) -> None:
        """Raise what has gone wrong in another thread."""
        failed = self.query.exception() or self.watcher.error
        if failed is not None:
            raise failed
        if not self.query.isActive:
            raise EpochFailed("the query has ended by itself")

    def _view(self) -> View:
        now = self.feeder.now()
        latency, rate = self.log.recent(now, LATELY_SECONDS)
        entry = self.log.entries[-1] if self.log.entries else None
        return View(
            seconds=now,
            rows=self.log.rows,
            rows_total=self.schedule.rows,
            rate=rate,
            epoch=-1 if entry is None else entry.epoch,
            latency=latency,
            bins=() if entry is None else entry.bins,
            wanted=self.scenario.wanted,
            running=tuple(sorted(self.scenario.running)),
            move=self._move(now),
            routes=self._worst(now),
        )

    def _move(self, now: float) -> Move | None:
        step = self.scenario.current
        if step is None or step.migration is None or step.asked_at is None:
            return None
        progress, seconds = step.migration.progress, now - step.asked_at
        if progress is None:
            return Move(step.name, step.migration.status, 0, 0, 0, seconds)
        counts = (progress.bins_moved, progress.bins_copied, progress.bins_total)
        return Move(step.name, step.migration.status, *counts, seconds)

    def _worst(self, now: float) -> list[tuple[str, int, float]]:
        """The worst routes; put together now and then, and for a terminal only, as it takes the query's time."""
        if isinstance(self.screen, LiveScreen) and self.log.entries and now >= self._routes_at:
            self._routes_at = now + ROUTES_EVERY_SECONDS
            latest = self.results.latest(self.log.entries[-1].epoch)
            self._routes = worst_routes(latest, ROUTES_SHOWN, ROUTE_FLIGHTS_MIN)
        return self._routes
