"""File formats: each epoch in a directory of its own, overwritten when the epoch runs again.

The layout ``path/epoch=N/`` is Spark's partition layout: ``spark.read.parquet(path)`` gives the rows with a column
``epoch``. An epoch's files are written to a directory that readers pass over, ``path/_staged-OWNER``, which gets the
epoch's name once all is there and the driver has seen that it is the newest: one that slept while another took over has
touched nothing of the other's. ``_SUCCESS`` marks a finished directory. An epoch without rows has a directory too.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from binshift.errors import InvalidQuery
from binshift.spark.sinks.contract import Guarantee
from binshift.spark.sinks.folders import Folders

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
EPOCH_PREFIX: Final = "epoch="
STAGED_PREFIX: Final = "_staged-"
FINISHED: Final = "_SUCCESS"
STAGING: Final = {
    # Dynamic overwriting would leave files of an earlier run in partitions that this one does not have.
    "partitionOverwriteMode": "static",
    # Nobody reads what is staged: tasks put their files where they belong, without another directory between.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    # Object stores rename file by file: the mark comes after all of them.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


class FileSink:
    """Writes each epoch to ``path/epoch=N/``: `write` and then `publish`.

    Args:
        name: the format.
        path: the directory of all epochs.
        columns: of the result, to refuse at once what no epoch could write.
        partition_by: columns that make further directories.
        options: for the format.

    Raises:
        InvalidQuery: no path, a column named ``epoch``, or partitioning by a column that is not there.
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
        self._folders: Folders | None = None
        self._tidied = False

    def write(self, result: DataFrame, epoch: int) -> None:
        """Stage the epoch; `publish` gives it its name.

        In a directory of its own, as that of a run that failed may not go away: file servers keep what a task still has open.
        """
        self._tidied &= not self._staged
        self._staged = STAGED_PREFIX + secrets.token_hex(8)
        writer = result.write.format(self.name).mode("overwrite").options(**self._options | STAGING)
        writer.partitionBy(*self._partition_by).save(f"{self.path}/{self._staged}")

    def publish(self, spark: SparkSession, epoch: int, confirm: Callable[[], None]) -> None:
        """What `write` has staged takes the place of what the epoch had.

        Args:
            spark: the session.
            epoch: its number.
            confirm: asked just before; raises if this driver must not publish any more.

        Raises:
            OSError: the file system refuses; then the epoch's directory may be gone until the epoch runs again.
        """
        folders, name = self._folders or Folders(spark, self.path), f"{EPOCH_PREFIX}{epoch}"
        self._folders = folders  # Hadoop's configuration is asked for once
        confirm()
        folders.remove(name)
        folders.rename(self._staged, name)
        self._staged = ""
        folders.mark(f"{name}/{FINISHED}")
        if not self._tidied:
            with contextlib.suppress(OSError):  # readers pass over it, and it is tried again
                for left in folders.names(f"{STAGED_PREFIX}*"):
                    folders.remove(left)
                self._tidied = True

    def close(self) -> None:
        """Nothing is held."""


def refuse_old_output(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Refuse to let a new query, whose epochs begin at 0, overwrite the epochs of an older one.

    Raises:
        InvalidQuery: ``path`` has epochs, but the checkpoint is new.
    """
    epochs = Folders(spark, path).names(f"{EPOCH_PREFIX}*")
    if epochs and not Folders(spark, checkpoint.rstrip("/")).names("*"):
        raise InvalidQuery(
            f"{path} holds {len(epochs)} epochs of another query, which this new one would overwrite: choose another "
            f"directory, or go on from the checkpoint they were written with; {checkpoint} is empty"
        )
