"""How an epoch's result reaches its sink."""

from __future__ import annotations

import logging
import time

from pyspark.sql import DataFrame, SparkSession

from binshift.errors import Retryable, TaskFailed
from binshift.log.log import Log
from binshift.log.records import outputs
from binshift.model import Epoch
from binshift.spark.sinks import FileSink, Sink
from binshift.spark.sinks.files import Choose

logger = logging.getLogger(__name__)

TRIES_MAX = 20
FAILURES_MAX = 4
"""The attempts to use the results' file system before the query fails: as many as the failures that an epoch's tasks may have."""
PAUSE_SECONDS_MAX = 5.0


class Output:
    """Takes an epoch's result into the sink, every row exactly once.

    Args:
        spark: the user's session.
        sink: takes the rows.
        log: decides whose files are an epoch's result.
    """

    def __init__(self, spark: SparkSession, sink: Sink, log: Log) -> None:
        self._spark = spark
        self._sink = sink
        self._log = log
        logger.info("results go to %s: %s", sink.name, sink.guarantee)

    def __call__(self, result: DataFrame, epoch: Epoch, *, observed: bool = False, stands: bool = False) -> None:
        """Run the epoch's job.

        Args:
            result: its rows.
            epoch: their epoch.
            observed: the result's own plan must run (see `observing`).
            stands: S has already returned every row, and any action on the result finds the same ones.
        """
        drained = observed or (self._sink.drains and not stands)
        self._sink.write(result.localCheckpoint(eager=True) if drained else result, epoch)

    def publish(self, epoch: Epoch) -> None:
        """Let readers see the files of a recorded epoch. If a driver dies before this, the epoch is replayed.

        Raises:
            TaskFailed, DiskFull, StorageUnavailable: all attempts failed.
            Fenced: another driver has taken over.
            InvalidQuery: other files are in the epoch's directory.
        """
        if not isinstance(self._sink, FileSink):
            return
        failures = 0
        for tried in range(TRIES_MAX):
            try:
                self._sink.publish(self._spark, epoch, self._choice(epoch))
                return
            except Retryable as error:
                failures += isinstance(error, TaskFailed)
                if failures == FAILURES_MAX or tried == TRIES_MAX - 1:
                    raise
                logger.warning("epoch %s is recorded but not published yet: %s", epoch, error)
            time.sleep(min(0.05 * 2.0**tried, PAUSE_SECONDS_MAX))

    def _choice(self, epoch: Epoch) -> Choose:
        log = self._log
        return lambda place, folder: outputs.choose(log.storage, log.term, epoch, place, folder)
