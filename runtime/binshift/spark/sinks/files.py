"""File formats: each epoch in a directory of its own, which never changes once it exists.

The layout ``path/epoch=N/`` is Spark's partition layout: ``spark.read.parquet(path)`` gives the rows with a column
``epoch``. A run writes its files to a directory that readers skip, ``path/_staged-N-NONCE``. Once the epoch is recorded, the
log names the run whose files are its result (`binshift.log.records.outputs`), and these get the epoch's name. All drivers and
all replays publish the same files, and a published file is never removed: so a driver that was suspended while another took
over can lose, double or mix nothing, wherever it resumes. ``_SUCCESS`` in a finished directory lists its files. An epoch
without rows has a
directory too.
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
from binshift.spark.sinks.folders import Folders, open_folders
from binshift.spark.sinks.local_folders import LocalFolders
from binshift.spark.sinks.manifest import written

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
EPOCH_PREFIX: Final = "epoch="
STAGED_PREFIX: Final = "_staged-"
SPARK_LOG: Final = "_spark_metadata"
Choose = Callable[[str, str], Iterator[Output]]
"""Given the directory and a staged folder in it: the folder whose files are the epoch's result, best first; see `outputs.choose`."""


class FileSink:
    """Writes each epoch to ``path/epoch=N/``: `write` and then `publish`.

    Args:
        name: the format.
        path: the directory of all epochs.
        columns: of the result, to reject at once what no epoch could write.
        partition_by: columns that are written as further directory levels.
        options: for the format.

    Raises:
        InvalidQuery: no path, a column named ``epoch``, or partitioning by a column that does not exist.
    """

    guarantee = Guarantee.FILES
    drains = False

    def __init__(
        self,
        name: str,
        path: str | None,
        columns: Sequence[str],
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        if not path:
            raise InvalidQuery(f"format({name!r}) needs a directory: start(path), or option('path', ...)")
        if "epoch" in (column.lower() for column in columns):
            raise InvalidQuery("the result has a column 'epoch', the name of each epoch's directory: rename it")
        missing = [column for column in partition_by if column.lower() not in (c.lower() for c in columns)]
        if missing:
            raise InvalidQuery(f"partitionBy({missing[0]!r}): the result has the columns {list(columns)}")
        self.name = name
        self.path = path.rstrip("/") or path
        self._partition_by = list(partition_by)
        self._options = dict(options or {})
        self._staged = ""
        self._opened: Folders | LocalFolders | None = None
        self._tidied = False

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
        """Give the epoch's name to the chosen files: the ones that `write` has staged, or another run's.

        It may be called again after an error.

        Args:
            spark: the session.
            epoch: its number; it is recorded.
            choose: chooses the run whose files are the result.

        Raises:
            InvalidQuery: the epoch's directory holds other files.
            TaskFailed, DiskFull: the file system reports an error.
            StorageUnavailable: as `Folders.publish`.
            Fenced: another driver has taken over.
        """
        folders, name = self._folders(spark), f"{EPOCH_PREFIX}{epoch}"
        failpoints.reached("publish.before")
        for chosen in choose(folders.url, self._staged):
            failpoints.reached("publish.chosen")
            if chosen.place == folders.url and folders.publish(chosen.folder, name):
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

    def close(self) -> None:
        """Nothing to release."""


def refuse_old_output(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Prevent a new query, whose epochs begin at 0, from overwriting the epochs of an older one, and any from writing what Spark does not read.

    Raises:
        InvalidQuery: ``path`` has epochs, but the checkpoint is new; or Spark's own file sink has written there.
    """
    folders = open_folders(spark, path)
    if folders.names(SPARK_LOG):
        raise InvalidQuery(
            f"Spark's file sink has written to {path}: its log, {SPARK_LOG}, hides all other files from Spark's readers, and so the new "
            "results. Choose another directory"
        )
    epochs = folders.names(f"{EPOCH_PREFIX}*")
    if epochs and not open_folders(spark, checkpoint.rstrip("/")).names("*"):
        raise InvalidQuery(
            f"{path} holds {len(epochs)} epochs of another query, which this new one would overwrite: choose another "
            f"directory, or continue from the checkpoint they were written with; {checkpoint} is empty"
        )
