"""Moves of bins between the steps of a program: to one worker, back to two, and every second bin to the other worker, in turn.

The strategies take turns, from one program to the next and from one move to the next, so that each kind of operator is moved by each of
them. Each move has ended before the next step begins, so that every step runs on a route of its own and a difference can be
assigned to one move.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from binshift.errors import Unsupported
from binshift.model import Bin, Worker
from binshift.strategies import Strategy

MOVE_SECONDS_MAX = 300


STRATEGIES = tuple(Strategy)


class Moves:
    """Moves bins after each step of one run of a program.

    Args:
        first: the number of the strategy to begin with.
    """

    def __init__(self, first: int = 0) -> None:
        self._next = first
        self.settled = Counter[str]()
        """Moves that have ended as requested, by strategy."""

    def __call__(self, query: StreamingQuery, step: int) -> None:
        """Move, and wait until the move has ended.

        Raises:
            Unsupported: Spark itself runs the query.
            TimeoutError: the move did not end, or was not carried out.
        """
        moving: Any = query
        if not hasattr(moving, "rescale"):
            raise Unsupported("binshift left the query to Spark")
        if moving.route is None:
            return
        strategy = STRATEGIES[self._next % len(STRATEGIES)].value
        migration = self._begin(moving, step, strategy)
        phase = migration.wait(MOVE_SECONDS_MAX)
        if phase.value != "settled":
            raise TimeoutError(f"[MIGRATION_{phase.name}] {migration.reason}")
        self._next += 1
        self.settled[strategy] += 1

    def _begin(self, query: Any, step: int, strategy: str) -> Any:
        match step % 3:
            case 0:
                return query.rescale(1, strategy=strategy)
            case 1:
                return query.rescale(2, strategy=strategy)
            case _:
                route = query.route
                moved = [Bin(each) for each in range(step // 3 % 2, route.bins, 2)]
                return query.move({each: Worker(1 - route.owner(each)) for each in moved}, strategy=strategy)
