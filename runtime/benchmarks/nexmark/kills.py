"""A killed executor: several queries lose it at the same moment, while their bins move to four workers."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from binshift.local import LocalCluster
from binshift.model import Worker
from binshift.strategies import Strategy
from nexmark.moves import FIRST_MOVE, OUT, WAIT_SECONDS_MAX, Calm, Function, Proof, moved_in

LOOK_SECONDS = 1.0
VICTIM = Worker(1)
"""It owns half of the bins at first, and gives some of them away."""


@dataclass(frozen=True)
class Held:
    """A sink that stops the stream at a moment, after it has kept the rows of a batch.

    Attributes:
        sink: keeps the rows.
        when: whether a batch is the moment.
        wait: called then; returns when the stream may continue.
    """

    sink: Function
    when: Callable[[int], bool]
    wait: Callable[[], None]

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Keep a batch."""
        self.sink(frame, epoch)
        if self.when(epoch):
            self.wait()


def is_moving(query: Any, epoch: int, steps: int) -> bool:
    """Whether it is time for a kill: bins have moved, or only a third of the batches with rows are left."""
    return moved_in(query.timings) > 0 or epoch >= 2 * steps // 3


class Meeting:
    """Lets queries wait for each other, then continue, and at the same moment kills an executor.

    Args:
        cluster: has the executor.
        queries: how many meet.
    """

    def __init__(self, cluster: LocalCluster, queries: int) -> None:
        self._cluster = cluster
        self._barrier = threading.Barrier(queries, self._kill)
        self.over = threading.Event()
        self.killed: list[int] = []

    def arrive(self) -> None:
        """Wait for the others; the last one kills.

        Raises:
            threading.BrokenBarrierError: another query has failed, or was too slow.
        """
        self._barrier.wait(WAIT_SECONDS_MAX)

    def give_up(self) -> None:
        """A query has failed before: the others do not wait for it."""
        self._barrier.abort()
        self.over.set()

    def _kill(self) -> None:
        self.over.set()
        for pid in self._cluster.executor_pids(VICTIM):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed.append(pid)


@dataclass
class ExecutorKill(Calm):
    """Loses the executor of one worker.

    Attributes:
        meeting: with the other queries.
        steps: the batches with rows.
    """

    meeting: Meeting
    steps: int
    _held: threading.Event = field(default_factory=threading.Event)
    _query: Any = None
    _killed_after: int = 0
    _owned: int = 0

    def sink(self, sink: Function) -> Function:
        """A sink that waits for the kill in the first batch after a bin has moved."""
        return Held(sink, self._is_time, self._wait)

    def disturb(self, query: Any) -> None:
        """Begin a move that takes many batches, and kill during it."""
        self._query = query
        try:
            query.await_epoch(FIRST_MOVE, WAIT_SECONDS_MAX)
            query.rescale(OUT, strategy=Strategy.FLUID.value)
            while not self._held.wait(LOOK_SECONDS):
                if not query.isActive:
                    raise RuntimeError(f"the query has ended before the kill: {query.exception()}")
            self._owned, self._killed_after = len(query.route.bins_of(VICTIM)), query.epoch
            self.meeting.arrive()
        except BaseException:
            self.meeting.give_up()
            raise

    def proof(self, query: Any) -> Proof:
        """Bins that the executor had, and batches with rows after its end."""
        with_rows = [each for each in query.timings if each.epoch < self.steps and each.rows_in]
        after = [each for each in with_rows if each.epoch > self._killed_after]
        found = Proof(moved_in(with_rows), len(after))
        if not self.meeting.killed or not self._owned:
            found.problems.append(f"killed were {self.meeting.killed}, which had {self._owned} bins")
        if not found.moved or not after:
            found.problems.append(f"{found.moved} bins moved, and {len(after)} batches with rows came after the kill")
        return found

    def _is_time(self, epoch: int) -> bool:
        return self._query is not None and is_moving(self._query, epoch, self.steps)

    def _wait(self) -> None:
        self._held.set()
        self.meeting.over.wait(WAIT_SECONDS_MAX)
