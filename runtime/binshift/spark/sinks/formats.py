"""Sinks that hand an epoch to one of Spark's batch writers: kafka, noop, and any other format by its name.

binshift adds nothing to what they write and takes nothing from it. Batches carry no epoch of their own: a user who must
recognise duplicates writes the epoch into the rows, with `foreachBatch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from binshift.errors import InvalidQuery
from binshift.spark.sinks.contract import Guarantee


class NoopSink:
    """Takes every row and keeps none: for measuring."""

    name = "noop"
    guarantee = Guarantee.IDEMPOTENT
    drains = False

    def write(self, result: DataFrame, epoch: int) -> None:
        """Run the epoch's job."""
        result.write.format("noop").mode("overwrite").save()

    def close(self) -> None:
        """Nothing is held."""


class FormatSink:
    """Appends each epoch with a format of Spark's, or of a package the user brought.

    What such a format does with a frame is not known: it may run several jobs. So it gets a drained result.

    Args:
        name: of the format.
        options: for the format.
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
        """Nothing is held."""


class KafkaSink(FormatSink):
    """Sends each row to Kafka, in the epoch's own job, as Spark's writer does: one job that takes every row.

    Args:
        options: of Spark's Kafka writer.
        columns: of the result, to refuse at once what no epoch could send.

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
