"""What disturbs a running query, and what proves that it did: here moves of its bins, from two workers to four and then to three.

All input is there from the beginning, one file a batch, so that batches with rows follow each other while bins move. A move counts only
if its bins changed their owner in such batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from binshift.engine.timings import EpochTimings
from binshift.strategies import Strategy

WORKERS, OUT, BACK = 2, 4, 3
"""Workers of a query at first, after it was scaled out, and after it was scaled in again."""
STRATEGIES: Mapping[str, Strategy] = {
    "all-at-once": Strategy.ALL_AT_ONCE,
    "fluid": Strategy.FLUID,
    "batched": Strategy.BATCHED,
    "optimized": Strategy.OPTIMIZED,
}
FIRST_MOVE = 3
"""The batch after which the first move is requested."""
STEP_BINS = 4
"""Bins of a step of Batched, and of a matched pair of workers in a step of Optimized."""
WAIT_SECONDS_MAX = 300.0

Function = Callable[[DataFrame, int], None]
"""What `foreachBatch` calls."""


@dataclass
class Proof:
    """What happened in one run.

    Attributes:
        moved: changes of a bin's owner, in batches with rows.
        meanwhile: batches with rows from the requests of the moves to their ends.
        problems: why the run proves less than it must.
    """

    moved: int = 0
    meanwhile: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Proof) -> None:
        """Add that of another move."""
        self.moved += other.moved
        self.meanwhile += other.meanwhile
        self.problems += other.problems


class Calm:
    """No disturbance; the others derive from it."""

    def sink(self, sink: Function) -> Function:
        """What gets the batches, instead of ``sink``."""
        return sink

    def disturb(self, query: Any) -> None:
        """Disturb the query that was just started; returns when that is over."""

    def proof(self, query: Any) -> Proof:
        """What happened to the query, which has ended."""
        return Proof()


Move = tuple[str, int]
"""The name of a strategy, and the number of workers to move to."""


def streams(names: Sequence[str]) -> list[list[Move]]:
    """Moves of one or two streams, so that each of these strategies scales out once and in once.

    >>> streams(["fluid"])
    [[('fluid', 4), ('fluid', 3)]]
    >>> streams(["fluid", "batched"])
    [[('fluid', 4), ('batched', 3)], [('batched', 4), ('fluid', 3)]]
    """
    even = [*names, *names[: len(names) % 2]] if len(names) > 1 else [*names, *names]
    pairs = [(even[at], even[at + 1]) for at in range(0, len(even), 2)]
    both = [
        [move for out, back in pairs for move in ((out, OUT), (back, BACK))],
        [move for back, out in pairs for move in ((out, OUT), (back, BACK))],
    ]
    return both[: min(len(names), 2)]


@dataclass
class Moves(Calm):
    """Scales a query out and in again, each time by another strategy.

    Attributes:
        moves: in their order.
        steps: the batches with rows.
        ended: of each move that was carried out: the newest epochs at its request and at its end.
        by_strategy: what happened in the moves of each strategy.
    """

    moves: Sequence[Move]
    steps: int
    ended: list[tuple[int, int]] = field(default_factory=list)
    by_strategy: dict[str, Proof] = field(default_factory=dict)

    def disturb(self, query: Any) -> None:
        """Move out and in; each move ends before the next one begins.

        Raises:
            RuntimeError: a move was not carried out.
            TimeoutError: it did not end.
        """
        query.await_epoch(FIRST_MOVE, WAIT_SECONDS_MAX)
        for name, workers in self.moves:
            before = query.epoch
            migration = query.rescale(workers, strategy=STRATEGIES[name].value, batch_size=STEP_BINS)
            phase = migration.wait(WAIT_SECONDS_MAX)
            if phase.value != "settled" or query.workers != tuple(range(workers)):
                raise RuntimeError(
                    f"the move to {workers} workers is {phase.value}: {migration.reason}; workers are {query.workers}"
                )
            self.ended.append((before, query.epoch))

    def proof(self, query: Any) -> Proof:
        """Bins that moved, from the timings of the epochs."""
        found = Proof()
        for (name, workers), (before, after) in zip(self.moves, self.ended, strict=True):
            during = [each for each in query.timings if before < each.epoch <= after]
            one = proof_of(f"{name} to {workers} workers", during, self.steps)
            self.by_strategy.setdefault(name, Proof()).add(one)
            found.add(one)
        return found


def proof_of(what: str, during: Sequence[EpochTimings], steps: int) -> Proof:
    """What the epochs of a move prove; batches from ``steps`` on have no rows."""
    with_rows = [each for each in during if each.epoch < steps and each.rows_in]
    moved = moved_in(with_rows)
    idle = moved_in(during) - moved
    found = Proof(moved, len(with_rows))
    if not moved:
        found.problems.append(f"{what}: no bin moved in a batch with rows")
    if idle:
        found.problems.append(f"{what}: {idle} bins moved after the last rows; use more --steps")
    return found


def moved_in(epochs: Iterable[EpochTimings]) -> int:
    """Changes of a bin's owner."""
    return sum(each.moved for each in epochs)
