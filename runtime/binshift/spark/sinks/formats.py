"""Sinks that pass an epoch to one of Spark's batch writers: kafka, noop, and any other format by its name.

binshift changes nothing in what they write, with one exception: a record sent to Kafka has its epoch in a header. With other
formats, a user who must recognise duplicates writes the epoch into the rows, with `foreachBatch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from binshift.errors import InvalidQuery
from binshift.spark.sinks.contract import Guarantee


class NoopSink:
    """Takes every row and keeps none: for measurements."""

    name = "noop"
    guarantee = Guarantee.IDEMPOTENT
    drains = False

    def write(self, result: DataFrame, epoch: int) -> None:
        """Run the epoch's job. Rows that the driver has need none."""
        plan = cast(Any, result)._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "LocalRelation":
            result.write.format("noop").mode("overwrite").save()

    def close(self) -> None:
        """Nothing to release."""


class TableSink:
    """Appends each epoch to a table of the catalog; the first one creates it if it does not exist.

    Args:
        table: its name.
        format: of a new table; None for the session's default.
        options: the format's options.
        partition_by: the columns by which a new table is partitioned.
    """

    guarantee = Guarantee.AT_LEAST_ONCE
    drains = True

    def __init__(
        self, table: str, format: str | None, options: Mapping[str, str], partition_by: Sequence[str] = ()
    ) -> None:
        self.name = f"table {table}"
        self._table = table
        self._format = format
        self._options = dict(options)
        self._partition_by = list(partition_by)

    def write(self, result: DataFrame, epoch: int) -> None:
        """Append the epoch."""
        writer = result.write.mode("append").options(**self._options)
        if self._format is not None:
            writer = writer.format(self._format)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.saveAsTable(self._table)

    def close(self) -> None:
        """Nothing to release."""


class FormatSink:
    """Appends each epoch with one of Spark's formats, or with that of a package that the user added.

    Such a format may run several jobs on a frame, so it gets a materialised result.

    Args:
        name: the name of the format.
        options: the format's options.
        path: for `save`, or None.
        partition_by: for `partitionBy`.
    """

    guarantee = Guarantee.AT_LEAST_ONCE
    drains = True

    def __init__(
        self, name: str, options: Mapping[str, str], path: str | None = None, partition_by: Sequence[str] = ()
    ) -> None:
        self.name = name
        self._options = dict(options)
        self._path = path
        self._partition_by = list(partition_by)

    def write(self, result: DataFrame, epoch: int) -> None:
        """Append the epoch."""
        writer = result.write.format(self.name).mode("append").options(**self._options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.save(self._path)

    def close(self) -> None:
        """Nothing to release."""


EPOCH_HEADER: Final = "binshift-epoch"
"""Header of each record sent to Kafka: its epoch's number, in decimal digits."""


class KafkaSink(FormatSink):
    """Sends each row to Kafka, in the epoch's own job, as Spark's writer does: one job that takes every row.

    Each record has the header `EPOCH_HEADER`, after those of the result's own column ``headers``. An epoch that runs again
    sends the same records with the same number, so a consumer recognises duplicates by (epoch, key). This suffices where every
    key has one row per epoch, as with aggregates.

    Args:
        options: options of the Kafka writer.
        columns: of the result, to reject at once what no epoch could send.

    Raises:
        InvalidQuery: there is no ``value`` column, or neither a ``topic`` column nor option, or no servers.
    """

    drains = False

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        super().__init__("kafka", options)
        given, names = {key.lower() for key in options}, {column.lower() for column in columns}
        if "value" not in names:
            raise InvalidQuery(f"format('kafka') sends a column named 'value'; the result has {list(columns)}")
        if "topic" not in given and "topic" not in names:
            raise InvalidQuery("format('kafka') needs option('topic', ...), or a column named 'topic'")
        if "kafka.bootstrap.servers" not in given:
            raise InvalidQuery("format('kafka') needs option('kafka.bootstrap.servers', 'host:port,...')")
        self._headers = next((column for column in columns if column.lower() == "headers"), None)

    def write(self, result: DataFrame, epoch: int) -> None:
        """Send the epoch's records."""
        super().write(self.stamped(result, epoch), epoch)

    def stamped(self, result: DataFrame, epoch: int) -> DataFrame:
        """The result with the epoch in each record's headers."""
        number = F.array(F.struct(F.lit(EPOCH_HEADER).alias("key"), F.lit(str(epoch)).cast("binary").alias("value")))
        if self._headers is None:
            return result.withColumn("headers", number)
        return result.withColumn(self._headers, F.concat(F.coalesce(F.col(self._headers), F.array()), number))
