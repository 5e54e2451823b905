"""Runs background rounds: copies, catches up, drops and snapshots bins, warms new workers, and wakes an idle stream.

Each round has a task on every worker that has something to do, each bounded to about half a second, so that a round never
holds a task slot an epoch waits for. What to do is decided by the migration controller; the loop only carries it to
`Jobs` and the reports back. A round that fails (an executor died, a job was cancelled) is planned again from the state at that
time. The loop runs in its own thread, concurrently with epochs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from binshift.engine.coordinator import Coordinator
from binshift.engine.housekeeping import Housekeeping
from binshift.engine.ports import Executor, Ports
from binshift.engine.target_controller import TargetController
from binshift.errors import Fenced, GiveUp, Retryable
from binshift.model import Worker
from binshift.worker.messages import BackgroundReport, BackgroundSpec

log = logging.getLogger(__name__)

WARM_TRIES_MAX = 3
WARM_RETRIES_MAX = 7
"""Rehearsals of a worker that may get well by itself, with growing rests between them: half a minute in all."""
IDLE_SECONDS = 0.1
"""How long the loop waits when there is nothing to do; a change wakes it at once."""


@dataclass
class BackgroundLoop:
    """The background of one query, in one driver term.

    Attributes:
        coordinator: decides what is to be done.
        ports: executors, jobs, the stream and a clock.
        targets: receives the registered executors.
        house: keeps the log short.
        in_epoch: set while an epoch runs.
        wait_seconds: how long a migration waits for the executors of its workers.
        error: why rounds cannot succeed any more, if they cannot.
        stopped: set when no further job must begin.
    """

    coordinator: Coordinator
    ports: Ports[Any]
    targets: TargetController
    house: Housekeeping
    in_epoch: threading.Event
    wait_seconds: float = 60.0
    error: Exception | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)
    _missing_since: dict[Worker, float] = field(default_factory=dict)
    _unwarmed: dict[Worker, int] = field(default_factory=dict)

    def run(self) -> None:
        """Rounds until stopped."""
        while not self.stopped.is_set():
            if not self.attempt():
                self.ports.clock.wait(self._wake, IDLE_SECONDS)
            self._wake.clear()

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def stop(self) -> None:
        """End after the job that runs."""
        self.stopped.set()
        self._wake.set()

    def attempt(self) -> bool:
        """One round, whatever becomes of it; whether there was anything to do."""
        try:
            return self.round()
        except Exception as error:  # the edge of a thread: a failed round must not end the query
            if isinstance(error, GiveUp):
                self.error = error
            if isinstance(error, Fenced):
                self.stopped.set()
            log.warning("background round failed: %s", error)
            return False

    def round(self) -> bool:
        """One round; whether there was anything to do.

        Raises:
            Fenced: a newer driver has taken over.
            StorageUnavailable: the log's files did not answer.
        """
        migrations = self.coordinator.migrations
        with (
            self.coordinator.lock
        ):  # what was read before the epoch's thread reports a loss must not be observed after it
            executors = self.ports.executors.alive()
            self.targets.observe({worker: executor.id for worker, executor in executors.items()})
            migrations.observe(frozenset(executors))
            wanted = migrations.cold()
            specs = self.coordinator.background()
            awaited = wanted | migrations.destinations()
        self._give_up(sorted(awaited - executors.keys()))
        cold = {w: executors[w] for w in sorted((wanted & executors.keys()) - migrations.backoff.resting())}
        try:
            self._warm_up(cold)
            for workers in migrations.backoff.jobs({spec.worker for spec in specs}):
                if not self.stopped.is_set():
                    self._work([spec for spec in specs if spec.worker in workers], executors)
            if specs:
                with self.coordinator.lock:
                    migrations.end_round()
        finally:
            self._keep_house()
        return bool(cold or specs)

    def _keep_house(self) -> None:
        """What has to be done whatever became of the round."""
        self.house.run(tuple(self.coordinator.migrations.snapshots.pending))
        if not self.in_epoch.is_set() and self.coordinator.needs_epoch():
            self.ports.batches.wake(final=False)

    def _warm_up(self, cold: Mapping[Worker, Executor]) -> None:
        """Rehearse on cold executors: all at once, or one by one where that has failed, to find the one that cannot."""
        groups = [{w: e} for w, e in cold.items()] if self._unwarmed.keys() & cold.keys() else [cold] if cold else []
        for group in groups:
            try:
                self.ports.jobs.rehearse(group)
            except Exception as error:  # whatever the user's program, image or node does to a rehearsal
                self._not_warm(group, error)
                continue
            for worker in group:
                self._unwarmed.pop(worker, None)
            with self.coordinator.lock:
                self.coordinator.migrations.backoff.record_success(group)
                self.coordinator.migrations.mark_warm(frozenset(group))

    def _not_warm(self, group: Mapping[Worker, Executor], error: Exception) -> None:
        """A worker on which an epoch cannot even be rehearsed gets no bins."""
        log.warning("workers %s could not rehearse an epoch: %s", sorted(group), error)
        for worker in group:
            self._unwarmed[worker] = self._unwarmed.get(worker, 0) + 1
            with self.coordinator.lock:
                if len(group) == 1:
                    self.coordinator.migrations.backoff.record_failure(worker, str(error))
                if self._unwarmed[worker] >= (WARM_RETRIES_MAX if isinstance(error, Retryable) else WARM_TRIES_MAX):
                    del self._unwarmed[worker]
                    self.coordinator.migrations.give_up(f"worker {worker} cannot run an epoch: {error}")

    def _give_up(self, missing: Sequence[Worker]) -> None:
        """A migration does not wait forever for workers that are never started."""
        now = self.ports.clock()
        self._missing_since = {w: self._missing_since.get(w, now) for w in missing}
        for worker, since in self._missing_since.items():
            if now - since > self.wait_seconds:
                self.targets.give_up(worker, self.wait_seconds)

    def _work(self, specs: Sequence[BackgroundSpec], executors: Mapping[Worker, Executor]) -> None:
        """One job; reports of its tasks count even if it failed, and tasks without a report are remembered.

        Raises:
            Fenced: another driver has taken over.
        """
        reports: list[BackgroundReport] = []
        why = "no report came"
        try:
            self.ports.jobs.background(specs, {spec.worker: executors[spec.worker] for spec in specs}, reports.append)
        except Exception as error:  # a fault of one executor must not stop the others
            why = str(error)
        silent = {spec.worker for spec in specs} - {report.worker for report in reports}
        if len(silent) > 1:
            log.warning("a background job ended before workers %s had reported: %s", sorted(silent), why)
        self.coordinator.take_reports(reports, sorted(silent), why)
