"""The two threads of a query's driver: Spark's stream thread, which passes each batch, and the background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame

from binshift.engine.background_loop import BackgroundLoop
from binshift.engine.epoch_loop import STOP_SECONDS_MAX, EpochLoop
from binshift.errors import EpochFailed
from binshift.model import Epoch
from binshift.spark.jobs.jobs import BACKGROUND_POOL, SparkJobs
from binshift.spark.session.jvm import Jvm

INTERRUPTED = "(py4j.protocol.Py4JJavaError: An error occurred while calling sleep: java.lang.InterruptedException)"
"""Spark recognises by this text that a `foreachBatch` function ended because the query was stopped, and logs no stack trace.
It must be short: Spark matches it with a regular expression that takes a Java stack frame for each character after it."""


class BatchCallback:
    """The epoch loop's side: called by the thread of Spark's stream."""

    def __init__(self, epochs: EpochLoop[DataFrame], jvm: Jvm, recorded: Callable[[], None]) -> None:
        self._epochs, self._jvm, self._recorded = epochs, jvm, recorded

    def epoch(self, batch: DataFrame, batch_id: int) -> None:
        """The `foreachBatch` function. Its errors are short and typed; while the query is being stopped, it waits for that."""
        try:
            if self._epochs.run(batch, Epoch(batch_id)):
                self._recorded()
                return
            self._jvm.await_interrupt(STOP_SECONDS_MAX)
        except Py4JJavaError as error:
            if "java.lang.InterruptedException" not in str(error):
                raise
        raise EpochFailed(f"the query is being stopped {INTERRUPTED}") from None


class BackgroundThread:
    """Runs the background loop."""

    def __init__(self, loop: BackgroundLoop, jobs: SparkJobs) -> None:
        self._loop = loop

        def run() -> None:
            jobs.use_pool(BACKGROUND_POOL)
            loop.run()

        target = inheritable_thread_target(jobs.spark)(run)
        self._thread = threading.Thread(target=target, name="binshift-background", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the running job."""
        self._loop.stop()
        self._thread.join()
