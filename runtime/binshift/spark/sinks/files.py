"""File formats: what an epoch's files are, and when readers see them.

A run writes its files to a directory that readers skip, ``path/_staged-N-NONCE``. Once the epoch is recorded, the
log names the run whose files are its result (`binshift.log.records.outputs`), and these are published. All drivers and
all replays publish the same files, and a published file is never removed: so a driver that was suspended while another took
over can lose, double or mix nothing, wherever it resumes. ``_SUCCESS`` in a staged directory lists its files.

There are two layouts. In append mode files are **as Spark's own sink has them**: in ``path`` itself, listed in ``_spark_metadata``, so that
programs that read them need no change, and an adopted query continues its directory. In the other modes, which Spark's sink refuses, a key has
rows in many epochs, so **each epoch has a directory**, ``path/epoch=N/``, which appears at once and never changes: Spark reads the rows
with a column ``epoch``. A directory that has epochs keeps this layout.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from binshift import failpoints
from binshift.errors import DiskFull, InvalidQuery, TaskFailed
from binshift.log.records.outputs import Output
from binshift.spark.session import jvm
from binshift.spark.sinks.contract import Guarantee
from binshift.spark.sinks.folders import Folders, file_errors, open_folders
from binshift.spark.sinks.local_folders import LocalFolders, in_the_way
from binshift.spark.sinks.manifest import Manifest, written
from binshift.spark.sinks.spark_log import SPARK_LOG, SparkLog

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
EPOCH_PREFIX: Final = "epoch="
STAGED_PREFIX: Final = "_staged-"
Choose = Callable[[str, str], Iterator[Output]]
"""Given the directory and a staged folder in it: the folder whose files are the epoch's result, best first; see `outputs.choose`."""


class FileSink:
    """Writes each epoch to ``path``: `write` and then `publish`.

    Attributes:
        listed_by_spark: the newest batch that an adopted query has in the log; Spark may have written it and not committed it.

    Args:
        name: the format.
        path: the directory of all epochs.
        columns: of the result, to reject at once what no epoch could write.
        partition_by: columns that are written as further directory levels.
        options: for the format.
        by_epoch: whether each epoch has a directory; else the layout is Spark's.

    Raises:
        InvalidQuery: no path, a column named ``epoch`` where directories have that name, or partitioning by a column that does not exist.
    """

    drains = False

    def __init__(
        self,
        name: str,
        path: str | None,
        columns: Sequence[str],
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        *,
        by_epoch: bool = True,
    ) -> None:
        if not path:
            raise InvalidQuery(f"format({name!r}) needs a directory: start(path), or option('path', ...)")
        missing = [column for column in partition_by if column.lower() not in (c.lower() for c in columns)]
        if missing:
            raise InvalidQuery(f"partitionBy({missing[0]!r}): the result has the columns {list(columns)}")
        self.name = name
        self.path = path.rstrip("/") or path
        self._partition_by = list(partition_by)
        self._options = dict(options or {})
        self._staged = ""
        self._columns = list(columns)
        self.by_epoch = False
        if by_epoch:
            self._lay_out_by_epoch()
        self._opened: Folders | LocalFolders | None = None
        self.listed_by_spark = -1
        self._spark_log: SparkLog | None = None
        self._tidied = False

    @property
    def guarantee(self) -> str:
        """See `Sink`; it follows from the layout."""
        return Guarantee.FILES_BY_EPOCH if self.by_epoch else Guarantee.FILES

    def open(self, spark: SparkSession, checkpoint: str, restored_from: str | None, adopted_from: str | None) -> None:
        """Choose the layout. A new query, whose epochs begin at 0, does not write among the epochs of an older one.

        Args:
            spark: the session.
            checkpoint: the query's location.
            restored_from: a snapshot whose epochs the query continues.
            adopted_from: the checkpoint of a Spark query that it continues, with that query's directory.

        Raises:
            InvalidQuery: the directory has epochs, but the checkpoint is new; Spark's log hides epochs in directories from its readers; or
                such a directory is continued, and the result has a column named ``epoch``.
        """
        folders = self._folders(spark)
        epochs = len(folders.names(f"{EPOCH_PREFIX}*"))
        if epochs and not self.by_epoch:
            self._lay_out_by_epoch()
        if restored_from is not None:
            return
        logged = bool(folders.names(SPARK_LOG))
        if self.by_epoch and logged:
            raise InvalidQuery(
                f"{self.path} has the log of Spark's file sink, {SPARK_LOG}, which hides all other files from Spark's readers, and so the epochs "
                "of a result that is not in append mode. Choose another directory"
            )
        number = self._log(spark).last() + 1 if logged else epochs
        if not number or open_folders(spark, checkpoint.rstrip("/")).names("*"):
            return
        if adopted_from is None or self.by_epoch:
            raise InvalidQuery(
                f"{self.path} holds {number} epochs of another query, among which this new one would write: choose another "
                f"directory, or continue from the checkpoint they were written with; {checkpoint} is empty"
            )
        self.listed_by_spark = number - 1

    def _lay_out_by_epoch(self) -> None:
        if "epoch" in (column.lower() for column in self._columns):
            raise InvalidQuery("the result has a column 'epoch', the name of each epoch's directory: rename it")
        self.by_epoch = True

    def write(self, result: DataFrame, epoch: int) -> None:
        """Stage the epoch; `publish` renames it.

        Each run has its own directory, because a failed run's cannot always be removed: file servers keep files that a task has open.

        Raises:
            TaskFailed, DiskFull: the file system reports an error.
        """
        folders, java = self._folders(result.sparkSession), jvm.install(result.sparkSession)
        self._tidied &= not self._staged
        self._staged = f"{STAGED_PREFIX}{epoch}-{secrets.token_hex(8)}"
        folders.make(self._staged)
        writer = result.write.format(self.name).mode("append").options(**self._options)
        with java.staged_files(result.sparkSession):
            writer.partitionBy(*self._partition_by).save(f"{self.path}/{self._staged}")
        folders.seal(written(self._staged, java.written(self._staged)))

    def publish(self, spark: SparkSession, epoch: int, choose: Choose) -> None:
        """Let readers see the chosen files: the ones that `write` has staged, or another run's.

        It may be called again after an error.

        Args:
            spark: the session.
            epoch: its number; it is recorded.
            choose: chooses the run whose files are the result.

        Raises:
            InvalidQuery: the epoch has other files.
            TaskFailed, DiskFull: the file system reports an error.
            StorageUnavailable: as `Folders.publish`.
            Fenced: another driver has taken over.
        """
        folders = self._folders(spark)
        failpoints.reached("publish.before")
        for chosen in choose(folders.url, self._staged):
            failpoints.reached("publish.chosen")
            if chosen.place == folders.url and self._shown(spark, folders, chosen.folder, epoch):
                break
            if chosen.folder == self._staged:
                raise TaskFailed(
                    f"{folders.url}/{self._staged} is gone before epoch {epoch} was published: find out which process removes it"
                )
        failpoints.reached("publish.after")
        self._tidied &= chosen.folder == self._staged
        self._staged = ""
        if not self._tidied:
            self._tidy(folders, epoch)

    def _shown(self, spark: SparkSession, folders: Folders | LocalFolders, folder: str, epoch: int) -> bool:
        """Show a staged folder's files as the epoch's; false if they neither exist nor are shown."""
        if self.by_epoch:
            return folders.publish(folder, f"{EPOCH_PREFIX}{epoch}")
        manifest = folders.manifest(folder)
        with file_errors(f"{self.path}/{SPARK_LOG}"):
            log = self._log(spark)
            if manifest is None:
                return log.last() >= epoch
            if epoch > self.listed_by_spark:
                self._list(folders, log, manifest, epoch)
        folders.remove(folder)
        return True

    def _list(self, folders: Folders | LocalFolders, log: SparkLog, manifest: Manifest, epoch: int) -> None:
        files = [name for _, name in manifest.files]
        if not log.has(epoch):
            folders.release(manifest)
            if log.add(epoch, files):
                folders.keep(log.name(epoch))
                return
        if not log.lists(epoch, files):
            raise in_the_way(f"{folders.url}/{SPARK_LOG}/{epoch}")

    def _tidy(self, folders: Folders | LocalFolders, epoch: int) -> None:
        """Remove what runs of this and earlier epochs have left: it can no longer be chosen."""
        with contextlib.suppress(TaskFailed, DiskFull):  # readers skip it, and removal is retried
            for left in folders.names(f"{STAGED_PREFIX}*"):
                number = left.removeprefix(STAGED_PREFIX).partition("-")[0]
                if not number.isdecimal() or int(number) <= epoch:
                    folders.remove(left)
            self._tidied = True

    def _folders(self, spark: SparkSession) -> Folders | LocalFolders:
        if self._opened is None:
            self._opened = open_folders(spark, self.path)  # Hadoop's configuration is read once
        return self._opened

    def _log(self, spark: SparkSession) -> SparkLog:
        if self._spark_log is None:
            self._spark_log = SparkLog(spark, self.path, self._options)
        return self._spark_log

    def close(self) -> None:
        """Nothing to release."""
