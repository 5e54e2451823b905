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


@dataclass
class Moves(Calm):
    """Scales a query out and in again by one strategy.

    Attributes:
        strategy: of both moves.
        steps: the batches with rows.
        asked: of each move: its workers, and the newest epochs at its request and at its end.
    """

    strategy: Strategy
    steps: int
    asked: list[tuple[int, int, int]] = field(default_factory=list)

    def disturb(self, query: Any) -> None:
        """Move out, then in; each move ends before the next one begins.

        Raises:
            RuntimeError: a move was not carried out.
            TimeoutError: it did not end.
        """
        query.await_epoch(FIRST_MOVE, WAIT_SECONDS_MAX)
        for workers in (OUT, BACK):
            before = query.epoch
            migration = query.rescale(workers, strategy=self.strategy.value, batch_size=STEP_BINS)
            phase = migration.wait(WAIT_SECONDS_MAX)
            if phase.value != "settled" or query.workers != tuple(range(workers)):
                raise RuntimeError(
                    f"the move to {workers} workers is {phase.value}: {migration.reason}; workers are {query.workers}"
                )
            self.asked.append((workers, before, query.epoch))

    def proof(self, query: Any) -> Proof:
        """Bins that moved, from the timings of the epochs."""
        found = Proof()
        for workers, before, after in self.asked:
            during = [each for each in query.timings if before < each.epoch <= after]
            found.add(proof_of(f"the move to {workers} workers", during, self.steps))
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
