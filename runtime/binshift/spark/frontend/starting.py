"""What a query that starts waits for: the executors of its first epoch, and their rehearsal."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from binshift.engine.ports import Executor
from binshift.errors import InvalidSettings, Retryable
from binshift.log.log import Log
from binshift.model import Worker
from binshift.settings import Settings
from binshift.spark.jobs.jobs import SparkJobs
from binshift.spark.session.executors import ExecutorView

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05


def warm(jobs: SparkJobs, executors: Mapping[Worker, Executor]) -> None:
    """Rehearse before the first epoch; the first epoch handles an executor that is lost meanwhile."""
    try:
        jobs.rehearse(executors)
    except Retryable as lost:
        logger.warning("the rehearsal ended early: %s", lost)


def await_executors(view: ExecutorView, log: Log, settings: Settings) -> Mapping[Worker, Executor]:
    """Wait for the executors the first epoch needs: the recorded workers, or as many as a new query starts with.

    Lost recorded workers do not block the others: the first epoch moves their bins to the registered workers.

    Raises:
        InvalidSettings: no executor registered, or too few for a new query.
    """
    route = log.index.route
    deadline = time.monotonic() + settings.executor_wait_seconds
    while True:
        executors = view.alive()
        wanted = set(route.workers) if route is not None else set()
        if wanted <= executors.keys() and len(executors) >= (1 if route else settings.workers or 1):
            return executors
        if time.monotonic() > deadline:
            if route is not None and executors:
                logger.warning(
                    "workers %s are not registered: the query starts without them", sorted(wanted - executors.keys())
                )
                return executors
            need = f"workers {sorted(wanted)}" if wanted else f"{settings.workers or 1} workers"
            raise InvalidSettings(
                f"the query needs executors for {need}; after {settings.executor_wait_seconds:.0f} s it has "
                f"{sorted(executors)}. Start more, or set binshift.workers"
            )
        time.sleep(POLL_SECONDS)
