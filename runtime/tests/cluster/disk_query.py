"""The query of the tests of faulty disks: its log and its stores are where a test puts them; it is stopped and checked in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counted import Outputs, counting
from pyspark.sql import SparkSession

from binshift.log.tools.inspect import verify

MANY_ATTEMPTS = 200
"""Runs of one epoch: a test lets a disk be faulty for longer than usual."""


class DiskQuery:
    """A count on given disks.

    Attributes:
        query: the query that was started last.
        outputs: the output of all of them.
    """

    def __init__(self, session: SparkSession, log: Path, store: Path) -> None:
        self._session, self._log, self._store = session, log, store
        self.outputs = Outputs()
        self.query: Any = self.start()

    def start(self) -> Any:
        """Start, or continue from an existing checkpoint."""
        settings = {"bins": 32, "workers": 2, "epoch_attempts_max": MANY_ATTEMPTS, "store_map_bytes": 64 << 20}
        writer = counting(self._session, store_directory=str(self._store), **settings).foreachBatch(self.outputs)
        self.query = writer.option("checkpointLocation", str(self._log / "checkpoint")).start()
        return self.query

    def check(self, label: object) -> None:
        """Check that every epoch's rows are the reference's, and that the log is intact."""
        self.outputs.check(self.query.epoch, label)
        assert verify(str(self._log / "checkpoint" / "binshift")) == []


@contextmanager
def disk_query(
    session: SparkSession, log: Path, store: Path, repair: Callable[[], None], label: object
) -> Iterator[DiskQuery]:
    """A started query; after a successful test it is stopped and checked, otherwise aborted, with the disks repaired first."""
    subject = DiskQuery(session, log, store)
    try:
        yield subject
        subject.query.stop()
    finally:
        repair()
        if subject.query.isActive:
            subject.query.abort()
    subject.check(label)
