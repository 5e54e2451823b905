"""Every kind of run of every query, in an order in which several queries run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from measuring import Bench

from nexmark.correct import Checked, Judge, Runner
from nexmark.drivers import Drivers
from nexmark.kills import ExecutorKill, Meeting
from nexmark.life import SYSTEM as DRIVER_KILLED
from nexmark.moves import STRATEGIES, WORKERS, Calm, Moves, Proof, streams
from nexmark.query import Query

CALM, EXECUTOR_KILLED = "calm", "executor-killed"
RUNS = (CALM, *STRATEGIES, EXECUTOR_KILLED, DRIVER_KILLED)
SPARK, BINSHIFT = "spark", "binshift"
"""The two runs that `CALM` stands for."""
KILLED_AT_ONCE = 6
"""Queries that lose an executor at the same time: until another has started, they mostly wait."""

Disturb = Callable[[], Calm]
Made = TypeVar("Made")


@dataclass
class Suite:
    """The runs of some queries.

    Attributes:
        queries: all of them; those without state run on Spark only.
        runs: the kinds, of `RUNS`.
        bins: of binshift's state.
        at_once: queries that run at the same time.
    """

    queries: Sequence[Query]
    runs: Sequence[str]
    bins: int
    at_once: int

    def __post_init__(self) -> None:
        self._refused: set[str] = set()

    @property
    def stateful(self) -> list[Query]:
        """Queries that binshift runs."""
        return [query for query in self.queries if query.state and query.name not in self._refused]

    def count(self) -> int:
        """How many runs there will be."""
        on_spark = len(self.queries) if CALM in self.runs else 0
        return on_spark + len(self.stateful) * len({BINSHIFT, *self.runs} - {CALM})

    def calm_and_moved(self, runner: Runner, judge: Judge) -> Iterator[Checked]:
        """Those in which nothing is killed."""
        if CALM in self.runs:
            yield from self._in_turn(self.queries, lambda query: judge.judged(query, runner.run(query, SPARK)))
        yield from self._noted(self._on_binshift(runner, judge, BINSHIFT, self.stateful, Calm))
        yield from self._moved(runner, judge)

    def executor_killed(self, running: Bench, runner: Runner, judge: Judge) -> Iterator[Checked]:
        """Those with a killed executor, if they are wanted, in groups."""
        if EXECUTOR_KILLED not in self.runs:
            return
        stateful = self.stateful
        running.spark.sparkContext.setLogLevel("OFF")  # Spark reports the lost executor in many lines
        for first in range(0, len(stateful), KILLED_AT_ONCE):
            group = stateful[first : first + KILLED_AT_ONCE]
            meeting = Meeting(running.cluster, len(group))
            killing = partial(ExecutorKill, meeting, runner.inputs.steps)
            yield from self._on_binshift(runner, judge, EXECUTOR_KILLED, group, killing)

    def driver_killed(self, folder: Path, judge: Judge) -> Iterator[Checked]:
        """Those with a killed driver, if they are wanted, which need a cluster of their own."""
        by_name = {query.name: query for query in self.stateful}
        if DRIVER_KILLED in self.runs and by_name:
            for found in Drivers(folder, judge.inputs, judge.places, self.bins).run(list(by_name.values())):
                yield judge.judged(by_name[found.query], found, BINSHIFT)

    def _moved(self, runner: Runner, judge: Judge) -> Iterator[Checked]:
        """A result for each strategy, of the one or two streams that it moved."""
        chosen = [name for name in STRATEGIES if name in self.runs]

        def one(query: Query) -> list[Checked]:
            made = []
            for number, moves in enumerate(streams(chosen)):
                moving = Moves(moves, runner.inputs.steps)
                run = runner.run(query, f"moves-{number}", moving, bins=self.bins, workers=WORKERS)
                made.append((judge.judged(query, run, BINSHIFT), moving))
            return [_by_strategy(query, name, made, 1 / len(chosen)) for name in chosen]

        for found in self._in_turn(self.stateful if chosen else [], one):
            yield from found

    def _on_binshift(
        self, runner: Runner, judge: Judge, system: str, queries: Sequence[Query], disturb: Disturb
    ) -> Iterator[Checked]:
        def one(query: Query) -> Checked:
            compared = BINSHIFT if system != BINSHIFT else SPARK if CALM in self.runs else ""
            return judge.judged(query, runner.run(query, system, disturb(), bins=self.bins, workers=WORKERS), compared)

        return self._in_turn(queries, one, KILLED_AT_ONCE if system == EXECUTOR_KILLED else self.at_once)

    def _in_turn(
        self, queries: Sequence[Query], run: Callable[[Query], Made], at_once: int | None = None
    ) -> Iterator[Made]:
        with ThreadPoolExecutor(at_once or self.at_once) as threads:
            yield from threads.map(run, queries)

    def _noted(self, found: Iterator[Checked]) -> Iterator[Checked]:
        for each in found:
            if each.refused:
                self._refused.add(each.query)
            yield each


def _by_strategy(query: Query, name: str, made: Sequence[tuple[Checked, Moves]], share: float) -> Checked:
    """The result of one strategy: all streams that it moved are equal, and its own moves happened; and its share of their time."""
    found = Checked(query.name, name, proof=Proof())
    for run, moving in made:
        found.problems += run.problems
        found.refused = found.refused or run.refused
        found.rows, found.seconds = run.rows, found.seconds + share * run.seconds
        found.proof.add(moving.by_strategy.get(name, Proof()))
    return found
