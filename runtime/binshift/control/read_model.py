"""What the control API reads of a running `Dataflow` and the engine does not keep in that form. Nothing here changes anything."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from binshift.engine.dataflow import Dataflow
from binshift.engine.standbys import StandbyFigures
from binshift.engine.worker_backoff import WorkerFailure
from binshift.model import Worker

log = logging.getLogger(__name__)


def registered(dataflow: Dataflow) -> Collection[Worker]:
    """Workers whose executor is registered; none if Spark is gone."""
    try:
        return dataflow.epochs.ports.executors.alive().keys()
    except Exception as error:  # py4j's errors are many, and a session that has ended raises any of them
        log.debug("the registered executors are unknown: %s", error)
        return frozenset()


def copies(dataflow: Dataflow) -> Mapping[Worker, Mapping[int, int]]:
    """By worker, the epoch of every bin it holds a copy of; the oldest over all operators."""
    found: dict[Worker, dict[int, int]] = {}
    with dataflow.coordinator.lock:
        for (_, worker), held in dataflow.coordinator.migrations.copies.held.items():
            mine = found.setdefault(worker, {})
            mine.update({bin: min(epoch, mine.get(bin, epoch)) for bin, epoch in held.items()})
    return found


def copy_lag_epochs(dataflow: Dataflow) -> int | None:
    """How far the oldest copy a migration wants is behind; None if none is held."""
    with dataflow.coordinator.lock:
        held, last = dataflow.coordinator.migrations.copies, dataflow.log.index.last
        workers = {order.destination for order in held.orders}
        wanted = [(o, w, held.wanted(w)) for w in workers for o in held.operators]
        epochs = [epoch for o, w, bins in wanted for epoch in held.of(o, w, bins).values()]
    return max(0, last - min(epochs)) if epochs else None


def standbys(dataflow: Dataflow) -> StandbyFigures | None:
    """How complete the standby copies are; None without standbys."""
    with dataflow.coordinator.lock:
        return dataflow.coordinator.migrations.standbys.figures(dataflow.log.index)


def worker_failures(dataflow: Dataflow) -> Mapping[Worker, WorkerFailure]:
    """Workers whose newest round of background work failed, and why."""
    with dataflow.coordinator.lock:
        return dataflow.coordinator.migrations.backoff.known
