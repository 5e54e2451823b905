"""File formats: each epoch in a directory of its own, overwritten when the epoch runs again.

The layout ``path/epoch=N/`` is Spark's partition layout: ``spark.read.parquet(path)`` gives the rows with a column
``epoch``. Spark stages an epoch's files and publishes them at the end of the job; ``_SUCCESS`` marks a finished
directory. An epoch without rows has a directory too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from binshift.errors import InvalidQuery
from binshift.spark.sinks.contract import Guarantee

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
EPOCH_PREFIX = "epoch="


class FileSink:
    """Writes each epoch to ``path/epoch=N/``.

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

    def write(self, result: DataFrame, epoch: int) -> None:
        """Write the epoch's directory anew."""
        # Dynamic overwriting would leave files of an earlier run in partitions that this one does not have.
        options = self._options | {"partitionOverwriteMode": "static"}
        writer = result.write.format(self.name).mode("overwrite").options(**options)
        writer.partitionBy(*self._partition_by).save(f"{self.path}/{EPOCH_PREFIX}{epoch}")

    def close(self) -> None:
        """Nothing is held."""


def refuse_old_output(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Refuse to let a new query, whose epochs begin at 0, overwrite the epochs of an older one.

    Raises:
        InvalidQuery: ``path`` has epochs, but the checkpoint is new.
    """
    epochs = _names(spark, path + f"/{EPOCH_PREFIX}*")
    if epochs and not _names(spark, checkpoint.rstrip("/") + "/*"):
        raise InvalidQuery(
            f"{path} holds {len(epochs)} epochs of another query, which this new one would overwrite: choose another "
            f"directory, or go on from the checkpoint they were written with; {checkpoint} is empty"
        )


def _names(spark: SparkSession, pattern: str) -> list[str]:
    session: Any = spark
    path = session._jvm.org.apache.hadoop.fs.Path(pattern)
    found = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).globStatus(path)
    return [status.getPath().getName() for status in found or ()]
