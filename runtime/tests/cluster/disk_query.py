"""The query of the tests of bad disks: its log and its stores where a test says, ended and judged however it fared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counted import Outputs, aggregated, stream
from pyspark.sql import SparkSession

from binshift.log.tools.inspect import verify

MANY_ATTEMPTS = 200
"""Runs of one epoch: a test lets a disk be bad for longer than a person would."""


class DiskQuery:
    """A count on given disks.

    Attributes:
        query: the one that was started last.
        outputs: what all of them put out.
    """

    def __init__(self, session: SparkSession, log: Path, store: Path) -> None:
        self._session, self._log, self._store = session, log, store
        self.outputs = Outputs()
        self.query: Any = self.start()

    def start(self) -> Any:
        """Begin, or go on from the checkpoint that is there."""
        settings = {"bins": 32, "workers": 2, "epoch_attempts_max": MANY_ATTEMPTS, "store_map_bytes": 64 << 20}
        frame = aggregated(stream(self._session), store_directory=str(self._store), **settings)
        writer = frame.writeStream.outputMode("update").foreachBatch(self.outputs)
        self.query = writer.option("checkpointLocation", str(self._log / "checkpoint")).start()
        return self.query

    def check(self, label: object) -> None:
        """Every epoch's rows are the reference's, and nothing is wrong with the log."""
        self.outputs.check(self.query.epoch, label)
        assert verify(str(self._log / "checkpoint" / "binshift")) == []


@contextmanager
def disk_query(
    session: SparkSession, log: Path, store: Path, mend: Callable[[], None], label: object
) -> Iterator[DiskQuery]:
    """Started; after a test that went well stopped and checked, after another aborted, on disks that are mended first."""
    subject = DiskQuery(session, log, store)
    try:
        yield subject
        subject.query.stop()
    finally:
        mend()
        if subject.query.isActive:
            subject.query.abort()
    subject.check(label)
