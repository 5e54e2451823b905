"""A running dataflow: PySpark's StreamingQuery, and what binshift adds to it.

The engine's two loops do the work; this object only observes and controls them.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, Unpack

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery as SparkStreamingQuery

from binshift.engine.dataflow import Dataflow
from binshift.engine.migration_options import MigrationOverrides
from binshift.engine.migrations import Migration
from binshift.engine.timings import EpochTimings
from binshift.errors import MigrationRefused
from binshift.log.records.targets import Target
from binshift.model import Bin, Epoch, Worker
from binshift.routing import Route
from binshift.savepoints.shelf import Shelf
from binshift.spark.frontend.query_errors import failing, of_query
from binshift.spark.frontend.stopping import abort_query, stop_query
from binshift.spark.jobs.input_meter import InputMeter
from binshift.spark.session.progress import Reports, filled

POLL_SECONDS = 0.02

Begun = TypeVar("Begun", Migration, Migration | None)


class StreamingQuery(SparkStreamingQuery):
    """The object that users get: PySpark's query, with workers, route and migrations. `binshift.spark.frontend.query.start` makes it.

    It derives from PySpark's class, so that a typed program keeps its annotations, and every attribute that PySpark documents
    is available with the same meaning.
    """

    def __init__(
        self,
        query: SparkStreamingQuery,
        spark: SparkSession,
        dataflow: Dataflow,
        reports: Reports,
        meter: InputMeter,
        savepoints: Shelf,
        stop_background: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        super().__init__(query._jsq)
        self._query = query
        self._spark = spark
        self.dataflow = dataflow
        """The engine's parts of the query."""
        self._coordinator = dataflow.coordinator
        self._targets, self._epochs = dataflow.targets, dataflow.epochs
        self._reports, self.input, self.load, self.savepoints = reports, meter, meter.load, savepoints
        self._stop_background, self._close = stop_background, close
        self._ending, self._ended = threading.Lock(), False
        self._coordinator.migrations.running = lambda: self.isActive
        threading.Thread(target=self._end_with_spark, name="binshift-end", daemon=True).start()

    @property
    def application(self) -> str:
        """Spark's id of the session's application."""
        return str(self._spark.sparkContext.applicationId)

    @property
    def epoch(self) -> Epoch:
        """The newest recorded epoch; -1 before the first."""
        return self._coordinator.last

    @property
    def timings(self) -> Sequence[EpochTimings]:
        """The time spent in each part of the newest epochs, the newest last."""
        return tuple(self._epochs.timings)

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802 (PySpark's name)
        """As in PySpark, with ``stateOperators`` as `binshift.spark.session.progress` fills it; None before the first epoch."""
        newest = self._query.lastProgress
        return None if newest is None else filled(newest, self._reports)

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802 (PySpark's name)
        """As in PySpark, with ``stateOperators`` as `binshift.spark.session.progress` fills it; the newest last."""
        return [filled(each, self._reports) for each in self._query.recentProgress]

    @property
    def route(self) -> Route | None:
        """The owner of each bin, as of the newest recorded epoch; None before the first."""
        return self._coordinator.route

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers that own bins now."""
        route = self.route
        return () if route is None else route.workers

    @property
    def migrations(self) -> Sequence[Migration]:
        """All migrations of this run, the newest last."""
        return tuple(self._coordinator.migrations.history)

    def rescale(self, workers: int, **options: Unpack[MigrationOverrides]) -> Migration:
        """Move bins so that slots ``0 .. workers-1`` share them by measured load, with few moves (see `binshift.planner`).

        Returns at once; the query keeps running. A running migration is cancelled and superseded. Executors of these slots may
        register later. ``options`` are ``strategy``, ``batch_size`` and ``pre_copy``; the query's settings by default.

        Raises:
            MigrationRefused: ``workers`` is not positive, or the query has ended.
        """
        if workers < 1:
            raise MigrationRefused(f"rescale({workers}): a dataflow needs at least one worker")
        target = tuple(Worker(w) for w in range(workers))
        return self._begin(lambda: self._targets.rescale(target, **options))

    def rebalance(self, **options: Unpack[MigrationOverrides]) -> Migration:
        """Share the bins among the same workers by their measured load, for any owner of the target (`TargetController.rebalance`).

        Raises:
            MigrationRefused: no load has been measured yet, the strategy does not exist, or the query has ended.
        """
        return self._begin(lambda: self._targets.rebalance(**options))

    def move(self, moves: Mapping[Bin, Worker], **options: Unpack[MigrationOverrides]) -> Migration:
        """Move single bins; the others stay.

        Raises:
            MigrationRefused: the bin does not exist, or the query has ended.
        """
        return self._begin(lambda: self._targets.move(moves, **options))

    def put_target(
        self,
        *,
        owner: str,
        generation: int,
        workers: Sequence[Worker],
        latency_target_seconds: float | None = None,
        **options: Unpack[MigrationOverrides],
    ) -> Migration | None:
        """Set the target as ``owner`` (an operator's resource UID), durably; None if it was already set.

        Raises:
            TargetOutdated: the owner has set a newer generation, or set this one differently.
            MigrationRefused: it has no worker, the strategy does not exist, or the query has ended.
        """
        return self._begin(
            lambda: self._targets.put(owner, generation, tuple(workers), latency_target_seconds, **options)
        )

    @property
    def target(self) -> Target | None:
        """The target as it was set; None before the first."""
        return self._targets.target

    @property
    def effective_workers(self) -> tuple[Worker, ...]:
        """The workers of the target that can own bins now: without draining or lost ones."""
        return self._targets.effective

    def drain(self, worker: Worker) -> Migration:
        """Move everything off ``worker``, until it returns with another executor; `DrainRefused` if no other would remain."""
        return self._begin(lambda: self._targets.drain(worker))

    def cancel(self, migration: int, *, rollback: bool = False) -> Migration:
        """Stop a migration; with ``rollback``, move its bins back (the migration back is returned).

        Raises:
            NoSuchMigration: no migration has that number.
        """
        return self._begin(lambda: self._targets.cancel(migration, rollback=rollback))

    def _begin(self, act: Callable[[], Begun]) -> Begun:
        if not self.isActive:
            raise MigrationRefused("the query has ended; start it again first")
        with self._coordinator.lock:  # or a returned worker that no round has noticed is treated as still draining
            self._targets.observe({w: executor.id for w, executor in self._epochs.ports.executors.alive().items()})
        migration = act()
        self.dataflow.background.wake()
        return migration

    @property
    def isActive(self) -> bool:  # noqa: N802 (PySpark's name)
        """Whether the query runs."""
        return bool(self._query.isActive)

    def stop(self) -> None:
        """Stop after the running epoch: the stream ends only when that epoch is finished and recorded.

        If the query's own `foreachBatch` function calls it, it returns at once. `TimeoutError`: that function does not return.
        """
        stop_query(self._epochs, self._query, self._end, before=self._stop_background)

    def abort(self) -> None:
        """Stop at once, if necessary in the middle of an epoch: that epoch runs again at the next start."""
        abort_query(self._epochs, self._query, self._end)

    def exception(self) -> Exception | None:  # type: ignore[override]  # an error of binshift has its own type
        """Why the query failed, None if it runs or was stopped: a `StreamingQueryException` that is also binshift's error."""
        error = None if self._epochs.stopping.is_set() else self._epochs.error or self._query.exception()
        return error and of_query(error)

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 (PySpark's name)
        """As in PySpark: wait for the end, or for ``timeout`` seconds; raises the error of a failed query."""
        ended: bool | None = True  # stopped
        with failing(self._end, self.exception):
            ended = self._query.awaitTermination(None if timeout is None else math.ceil(timeout))
        if ended or timeout is None:
            self._end()
        return ended

    def processAllAvailable(self) -> None:  # noqa: N802 (PySpark's name)
        """As in PySpark: wait until all rows that are there now are processed; raises the error of a failed query."""
        with failing(self._end, self.exception):
            self._query.processAllAvailable()

    def await_epoch(self, epoch: int, timeout_seconds: float = 60.0) -> None:
        """Wait until ``epoch`` is recorded; `TimeoutError` if it is not within ``timeout_seconds``."""
        deadline = time.monotonic() + timeout_seconds
        while self.epoch < epoch:
            error = self.exception()
            if error is not None:
                raise error
            if time.monotonic() > deadline:
                raise TimeoutError(f"epoch {epoch} was not recorded in {timeout_seconds} s; the newest is {self.epoch}")
            time.sleep(POLL_SECONDS)

    def _end_with_spark(self) -> None:
        """Release what the query holds when it fails, even if no caller waits for it."""
        with contextlib.suppress(Exception):  # `exception` has the reason
            self._query.awaitTermination()
        self._end()

    def _end(self) -> None:
        with self._ending:
            if not self._ended:
                self._ended = True
                # Spark's stream has our callback, through which Python would otherwise keep the stream.
                self._coordinator.migrations.running = lambda: False
                self._stop_background()
                self._close()
