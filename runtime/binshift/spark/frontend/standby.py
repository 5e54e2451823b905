"""What a standby driver does until it is activated: its executors rehearse the program, so that a take-over finds them warm.

The checkpoint is neither read nor written meanwhile, and no local store of the query is opened: the active driver has both.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from binshift.engine.ports import Executor
from binshift.errors import Retryable
from binshift.log.records.terms import Driver
from binshift.model import BEFORE_FIRST, Term, Worker
from binshift.settings import Settings
from binshift.spark.frontend.host import Host
from binshift.spark.jobs.jobs import REHEARSALS, session_beside
from binshift.spark.jobs.rehearsal import Rehearsal
from binshift.spark.jobs.watch import JobWatch
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.session.executors import ExecutorView
from binshift.spark.session.jvm import Jvm
from binshift.spark.tasks.task import Environment
from binshift.store.opening import StoreSettings
from binshift.worker.messages import LogLocation

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
NO_QUERY: Final = "00000000-0000-0000-0000-000000000000"
"""Names the empty stores of rehearsals: the query's own is in the checkpoint."""


def rehearse_until_admitted(
    host: Host, spark: SparkSession, pipeline: Pipeline, java: Jvm, log_url: str, settings: Settings
) -> None:
    """Return once this driver is activated.

    Args:
        host: of the program.
        spark: the user's session.
        pipeline: the compiled program.
        java: binshift's Java classes.
        log_url: of the query's log, whose storage executors prepare to use.
        settings: of the query.
    """
    context = spark.sparkContext
    view, application = ExecutorView(context, java), context.applicationId or ""
    watch = JobWatch(context, view, "standby").start()
    try:
        rehearsal = Rehearsal(
            session_beside(spark, java), pipeline, java, _environment(log_url, settings), watch, Term(0)
        )
        times: Counter[tuple[Worker, Executor]] = Counter()
        ready: frozenset[Worker] = frozenset()
        busy = False
        while not host.admitted(application, 0 if busy else POLL_SECONDS):
            alive = view.alive().items()
            cold = [each for each in alive if times[each] < REHEARSALS]
            busy = bool(cold) and _rehearsed(rehearsal, dict(cold))
            if busy:
                times.update(cold)
            warm = frozenset(each[0] for each in alive if times[each] >= REHEARSALS)
            if warm != ready:
                ready = warm
                host.rehearsed(ready)
                log.info("the executors of workers %s are ready for a take-over", sorted(ready))
    finally:
        watch.close()


def _rehearsed(rehearsal: Rehearsal, on: Mapping[Worker, Executor]) -> bool:
    """Whether these executors have rehearsed once, or cannot."""
    try:
        rehearsal(on, 1)
    except Retryable as lost:
        log.info("a rehearsal of the standby ended early: %s", lost)
        return False
    except Exception as error:  # the query reports it when it starts
        log.warning("the standby's executors cannot rehearse: %s", error)
    return True


def _environment(log_url: str, settings: Settings) -> Environment:
    store = StoreSettings(settings.store_map_bytes, settings.undo_bytes_max)
    driver = Driver(Term(0), "standby", BEFORE_FIRST)
    return Environment(NO_QUERY, settings.bins, LogLocation(log_url), store, driver, settings.store_directory)
