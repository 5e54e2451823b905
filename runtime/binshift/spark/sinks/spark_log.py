"""The log of Spark's own file sink, ``_spark_metadata``: Spark's readers take the files that it lists, and no others.

Spark's class writes it, so its format, compaction and expiry are Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

SPARK_LOG: Final = "_spark_metadata"
_VERSION: Final = 1
_RETENTION: Final = "retention"
"""Spark's option: how long files stay listed."""


class SparkLog:
    """The log of one directory; it is made if it does not exist.

    Args:
        spark: the user's session.
        root: the directory of the results, as Spark takes it.
        options: of the sink, for ``retention``.
    """

    def __init__(self, spark: SparkSession, root: str, options: Mapping[str, str] | None = None) -> None:
        session: Any = spark
        self._gateway = session._sc._gateway
        self._last = -1
        self._jvm = session._jvm
        self._root = root
        path = self._at(SPARK_LOG)
        self._files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        self._status = self._jvm.org.apache.spark.sql.execution.streaming.sinks.SinkFileStatus
        retention = next((text for name, text in (options or {}).items() if name.lower() == _RETENTION), None)
        kept = self._jvm.scala.Option.empty()
        if retention is not None:
            milliseconds = self._jvm.org.apache.spark.network.util.JavaUtils.timeStringAsMs(retention)
            # Py4J passes a small number as an Integer, and Spark's class takes a Long.
            kept = getattr(self._jvm.scala.collection.StringOps, "toLongOption$extension")(str(milliseconds))
        self._log = self._jvm.org.apache.spark.sql.execution.streaming.sinks.FileStreamSinkLog(
            _VERSION, session._jsparkSession, f"{root}/{SPARK_LOG}", kept
        )

    def has(self, epoch: int) -> bool:
        """Whether an epoch is in it. It is not read for the epoch behind the newest one known: `add` finds what another driver has added."""
        if self._last != epoch - 1:
            self._last = self.last()
        return self._last >= epoch

    def last(self) -> int:
        """The newest epoch in it; -1 if it is empty."""
        found = self._log.getLatestBatchId()
        return int(found.get()) if found.isDefined() else -1

    def lists(self, epoch: int, files: Sequence[str]) -> bool:
        """Whether the entry of an epoch lists these files; true where Spark has removed the entry. No two runs use the same names."""
        found = self._log.get(epoch)
        if not found.isDefined():
            return True
        listed = {str(each.path()).rpartition("/")[2] for each in found.get()}
        return listed.issuperset(name.rpartition("/")[2] for name in files)

    def add(self, epoch: int, files: Sequence[str]) -> bool:
        """List the files of an epoch that it does not have (`has`); false if another driver has added it since.

        Spark compacts entries every few epochs and needs all of them for this. A directory whose first epoch is not 0 gets the ones before,
        without files.
        """
        for missing in range(self._last + 1 or self._compacted(epoch), epoch):
            self._log.add(missing, self._entry(()))
        added = bool(self._log.add(epoch, self._entry(files)))
        self._last = max(self._last, epoch)
        return added

    def name(self, epoch: int) -> str:
        """The entry of an epoch, relative to the directory."""
        return f"{SPARK_LOG}/{self._log.batchIdToPath(epoch).getName()}"

    def _compacted(self, epoch: int) -> int:
        """Begin an empty log with the newest compaction before ``epoch``; returns the epoch behind it."""
        compacted = epoch - epoch % int(self._log.compactInterval())
        if compacted:
            stream = self._files.create(self._log.batchIdToPath(compacted - 1), True)
            stream.write(bytearray(f"v{_VERSION}".encode()))
            stream.close()
        return compacted

    def _entry(self, files: Sequence[str]) -> Any:
        entry = self._gateway.new_array(self._status, len(files))
        for index, name in enumerate(files):
            entry[index] = self._status.apply(self._files.getFileStatus(self._at(name)))
        return entry

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}")
