"""What happens to a query while it runs: it moves from 2 workers to 4 and to 3, by two strategies, and an executor is killed between."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from measuring import POLL_SECONDS, await_batch

from binshift.local import LocalCluster
from binshift.model import Worker

STRATEGIES = ("AllAtOnce", "Fluid", "Batched", "Optimized")
FIRST_EPOCH = 2
MOVE_SECONDS_MAX = 300.0
FLUID_BINS = 32
"""A fluid move changes one bin in an epoch: with more bins it would outlast the events."""
BATCH_SIZE = 128


@dataclass(frozen=True)
class Script:
    """Strategies of the moves from 2 to 4 and from 4 to 3 workers, and whether an executor is killed between."""

    out: str
    back: str
    kill: bool = True

    def __str__(self) -> str:
        return f"{self.out}, {self.back}" + (", executor killed" if self.kill else "")

    def bins(self, bins: int) -> int:
        """The number of bins of such a run."""
        return FLUID_BINS if "Fluid" in (self.out, self.back) else bins

    def run(self, query: Any, cluster: LocalCluster) -> int:
        """Move, kill and move; returns the epoch at which the last move had ended.

        Raises:
            TimeoutError: a move did not end as requested.
        """
        await_batch(query, FIRST_EPOCH)
        settle(query.rescale(4, strategy=self.out, batch_size=BATCH_SIZE))
        if self.kill:
            kill(cluster, Worker(1))
            await_epochs(query, 1)
        settle(query.rescale(3, strategy=self.back, batch_size=BATCH_SIZE))
        return int(query.lastProgress["batchId"])


def scripts(every: bool, place: int) -> list[Script]:
    """All four strategies; or two of them, others for the next query."""
    if every:
        return [Script(each, each) for each in STRATEGIES]
    pairs = (("AllAtOnce", "Batched"), ("Optimized", "Fluid"), ("Batched", "Optimized"), ("Fluid", "AllAtOnce"))
    return [Script(*pairs[place % len(pairs)])]


def settle(migration: Any) -> None:
    """Wait until a move has ended as requested.

    Raises:
        TimeoutError: it did not end, or was not carried out.
    """
    phase = migration.wait(MOVE_SECONDS_MAX)
    if phase.value != "settled":
        raise TimeoutError(f"the move is {phase.value}: {migration.reason}")


def kill(cluster: LocalCluster, worker: Worker) -> None:
    """End the executor of a worker with SIGKILL; its worker process starts another."""
    for pid in cluster.executor_pids(worker):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def await_epochs(query: Any, more: int) -> None:
    """Wait until so many more epochs are committed, or the query has no more input."""
    goal = int(query.lastProgress["batchId"]) + more
    until = time.monotonic() + MOVE_SECONDS_MAX
    while int(query.lastProgress["batchId"]) < goal and query.status["isDataAvailable"]:
        if time.monotonic() > until or not query.isActive:
            raise TimeoutError(
                f"epoch {goal} has not been committed within {MOVE_SECONDS_MAX:.0f} s: {query.exception()}"
            )
        time.sleep(POLL_SECONDS)
