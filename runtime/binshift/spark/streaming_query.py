"""The type of a running query, as users and their type checkers see it: PySpark's StreamingQuery plus binshift's methods.

It derives from PySpark's class, so that a typed program keeps its annotations when it changes its one line. It declares
only what a user may rely on, and implements none of it: `binshift.spark.dataflow` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Unpack

from pyspark.sql.streaming.query import StreamingQuery as SparkStreamingQuery

from binshift.engine.migration_options import MigrationOverrides
from binshift.engine.migrations import Migration
from binshift.engine.timings import EpochTimings
from binshift.model import Bin, Epoch, Worker
from binshift.routing import Route


class StreamingQuery(SparkStreamingQuery, ABC):
    """The object that users get: PySpark's query, with workers, route and migrations.

    Every attribute PySpark documents is available with the same meaning (``id``, ``runId``, ``name``, ``isActive``,
    ``status``, ``lastProgress``, ``recentProgress``, ``awaitTermination``, ``processAllAvailable``, ``explain``,
    ``exception``, ``stop``).
    """

    @property
    @abstractmethod
    def epoch(self) -> Epoch:
        """The newest recorded epoch; -1 before the first."""

    @property
    @abstractmethod
    def workers(self) -> tuple[Worker, ...]:
        """The workers that own bins now."""

    @property
    @abstractmethod
    def route(self) -> Route | None:
        """The owner of each bin, as of the newest recorded epoch; None before the first."""

    @property
    @abstractmethod
    def migrations(self) -> Sequence[Migration]:
        """All migrations of this run, the newest last."""

    @property
    @abstractmethod
    def timings(self) -> Sequence[EpochTimings]:
        """The time spent in each part of the newest epochs, the newest last."""

    @abstractmethod
    def rescale(self, workers: int, **options: Unpack[MigrationOverrides]) -> Migration:
        """Move bins so that slots ``0 .. workers-1`` share them, while the query runs."""

    @abstractmethod
    def rebalance(self, **options: Unpack[MigrationOverrides]) -> Migration:
        """Move bins so that the workers have equal shares of the load as currently measured."""

    @abstractmethod
    def move(self, moves: Mapping[Bin, Worker], **options: Unpack[MigrationOverrides]) -> Migration:
        """Move single bins."""

    @abstractmethod
    def drain(self, worker: Worker) -> Migration:
        """Move everything off ``worker``, until it returns with another executor."""

    @abstractmethod
    def cancel(self, migration: int, *, rollback: bool = False) -> Migration:
        """Stop a migration; with ``rollback``, move its bins back (the migration back is returned)."""

    @abstractmethod
    def await_epoch(self, epoch: int, timeout_seconds: float = 60.0) -> None:
        """Wait until ``epoch`` is recorded."""

    @abstractmethod
    def exception(self) -> Exception | None:  # type: ignore[override]  # an error of binshift has its own type
        """Why the query failed, as Spark's error or binshift's; None if it runs or was stopped."""

    @abstractmethod
    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 (PySpark's name)
        """As in PySpark: wait for the end, or for ``timeout`` seconds; raises the error of a failed query."""
