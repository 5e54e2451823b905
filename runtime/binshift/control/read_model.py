"""The parts of a running query that the control API reads beside its public face. Nothing here changes anything.

They are gathered in one place, as a protocol, so that a service can be tested without Spark, and so that a change inside the
query is met in one module here.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Protocol

from binshift.engine.dataflow import Dataflow
from binshift.engine.epoch_progress import EpochProgress
from binshift.engine.worker_backoff import WorkerFailure
from binshift.log.index.index import Index
from binshift.model import Worker

log = logging.getLogger(__name__)


class ReadModel(Protocol):
    """What a `QueryService` looks at."""

    def index(self) -> Index:
        """The log, as of now."""

    def registered(self) -> Collection[Worker]:
        """Workers whose executor is registered; none if Spark is gone."""

    def copies(self) -> Mapping[Worker, Mapping[int, int]]:
        """By worker, the epoch of every bin it holds a copy of; the oldest over all operators."""

    def copy_lag_epochs(self) -> int | None:
        """How far the oldest copy a migration wants is behind; None if none is held."""

    def copied_bytes(self) -> int:
        """Bytes of state copied ahead of flips, in all."""

    def worker_failures(self) -> Mapping[Worker, WorkerFailure]:
        """Workers whose newest round of background work failed, and why."""

    def runs_failed(self) -> int:
        """Runs of epochs that failed, by this driver."""

    def latency_target_seconds(self) -> float:
        """The record latency that moves are paced by."""

    def stopping(self) -> bool:
        """Whether no further epoch will begin."""

    def epoch_progress(self) -> EpochProgress | None:
        """The epoch that runs now; None between epochs."""


class DataflowReadModel:
    """The parts of a `Dataflow`."""

    def __init__(self, dataflow: Dataflow) -> None:
        self._coordinator = dataflow.coordinator
        self._log = dataflow.log
        self._epochs = dataflow.epochs

    def index(self) -> Index:
        """See `ReadModel`."""
        return self._log.index

    def registered(self) -> Collection[Worker]:
        """See `ReadModel`."""
        try:
            return self._epochs.ports.executors.alive().keys()
        except (
            Exception
        ) as error:  # py4j's errors are many, and a session that has ended raises whichever it meets first
            log.debug("Spark does not say who is registered: %s", error)
            return frozenset()

    def copies(self) -> Mapping[Worker, Mapping[int, int]]:
        """See `ReadModel`."""
        found: dict[Worker, dict[int, int]] = {}
        with self._coordinator.lock:
            for (_, worker), held in self._coordinator.migrations.copies.held.items():
                mine = found.setdefault(worker, {})
                mine.update({bin: min(epoch, mine.get(bin, epoch)) for bin, epoch in held.items()})
        return found

    def copy_lag_epochs(self) -> int | None:
        """See `ReadModel`."""
        with self._coordinator.lock:
            copies, last = self._coordinator.migrations.copies, self._log.index.last
            workers = {order.destination for order in copies.orders}
            wanted = [(o, w, copies.wanted(w)) for w in workers for o in copies.operators]
            epochs = [epoch for o, w, bins in wanted for epoch in copies.of(o, w, bins).values()]
        return max(0, last - min(epochs)) if epochs else None

    def copied_bytes(self) -> int:
        """See `ReadModel`."""
        return self._coordinator.migrations.bytes_copied

    def worker_failures(self) -> Mapping[Worker, WorkerFailure]:
        """See `ReadModel`."""
        with self._coordinator.lock:
            return self._coordinator.migrations.backoff.known

    def runs_failed(self) -> int:
        """See `ReadModel`."""
        return self._epochs.runs_failed

    def latency_target_seconds(self) -> float:
        """See `ReadModel`."""
        return self._coordinator.migrations.pacer.aim_seconds

    def stopping(self) -> bool:
        """See `ReadModel`."""
        return self._epochs.stopping.is_set()

    def epoch_progress(self) -> EpochProgress | None:
        """See `ReadModel`."""
        return self._epochs.progress
