"""Workers that cannot do background work: who they are, and how long each is left out of rounds.

A fault of one worker (its disk, its image, its memory) must not keep the others from copying and writing snapshots. A task
reports the faults that it can detect, and its worker backs off exponentially. If a task cannot report (its process dies, its
Python does not start), its whole job fails: the workers that had not reported are split in half, one job for each half, until
the faulty one is alone in its job; it remains there until it has done a round.

A worker in backoff is retried in the end, on a new executor or the same: there is no other way to detect a repair.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from binshift.backoff import backoff_seconds
from binshift.engine.clock import Clock
from binshift.model import Worker

log = logging.getLogger(__name__)

REST_SECONDS = 1.0
"""After the second failure in a row; doubled with each further one. One failure is nothing: a store may have been busy."""

REST_SECONDS_MAX = 60.0

FAILURES_MAX = 4
"""After more in a row, a copy on that worker is not started again."""


@dataclass(frozen=True)
class WorkerFailure:
    """What is wrong with one worker.

    Attributes:
        failures: rounds in a row that failed.
        reason: why the newest one did.
        until: it rests until then, in seconds of the clock.
    """

    failures: int
    reason: str
    until: float


class WorkerBackoff:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[Worker, WorkerFailure] = {}
        self._suspects: dict[Worker, int] = {}
        self._numbers = itertools.count(1)

    @property
    def known(self) -> Mapping[Worker, WorkerFailure]:
        """Workers whose newest round failed."""
        return dict(self._known)

    def resting(self) -> frozenset[Worker]:
        """Workers that are to be left out now."""
        now = self._clock()
        return frozenset(worker for worker, trouble in self._known.items() if now < trouble.until)

    def jobs(self, workers: Collection[Worker]) -> list[list[Worker]]:
        """Which of ``workers`` may share a job: all that nothing is known against, and so first."""
        groups: dict[tuple[int, int], list[Worker]] = {}
        for worker in sorted(workers):
            alone = worker + 1 if worker in self._known else 0
            groups.setdefault((alone, self._suspects.get(worker, 0)), []).append(worker)
        return [groups[key] for key in sorted(groups)]

    def wake(self, workers: Collection[Worker]) -> None:
        """These workers have new work: end their backoff."""
        for worker in self._known.keys() & workers:
            self._known[worker] = replace(self._known[worker], until=self._clock())

    def hopeless(self) -> frozenset[Worker]:
        """Workers that failed so often in a row that nothing should wait for them."""
        return frozenset(worker for worker, trouble in self._known.items() if trouble.failures > FAILURES_MAX)

    def suspect(self, workers: Sequence[Worker]) -> None:
        """The job of these workers failed before they reported, and it is not known because of whom."""
        for half in (workers[: len(workers) // 2], workers[len(workers) // 2 :]):
            self._suspects |= dict.fromkeys(half, next(self._numbers))

    def record_failure(self, worker: Worker, reason: str) -> None:
        """A round of this worker failed, and of no other."""
        failures = self._known[worker].failures + 1 if worker in self._known else 1
        rest = backoff_seconds(failures - 1, REST_SECONDS, REST_SECONDS_MAX)
        self._known[worker] = WorkerFailure(failures, reason, self._clock() + rest)
        log.warning("background work of worker %s failed (%s in a row): %s", worker, failures, reason)

    def record_success(self, workers: Collection[Worker]) -> None:
        """A round of each of these workers, or a rehearsal on it, went well."""
        for worker in workers:
            self._suspects.pop(worker, None)
            self._known.pop(worker, None)

    def forget_absent(self, alive: Collection[Worker]) -> None:
        """A worker that has no executor and is not resting any more is forgotten."""
        gone = self._known.keys() - set(alive) - self.resting()
        self.record_success(gone)
