"""The memory sink: every epoch's rows on the driver, for tests, notebooks and demonstrations.

An epoch that runs again replaces its rows. All rows stay in memory until the query is restarted, so it is for small results.
As in Spark, they can be queried as a table with the query's name. The table is rebuilt in each epoch that has rows, which costs
time in proportion to all rows held.
"""

from __future__ import annotations

import threading

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import StructType

from binshift.spark.sinks.contract import Guarantee


class MemorySink:
    """Collects results.

    Args:
        schema: of the results.
        spark: the user's session, in which the view is created; None without a view.
        view: name of the temporary view; None without one.
    """

    name = "memory"
    guarantee = Guarantee.IDEMPOTENT
    drains = False

    def __init__(self, schema: StructType, spark: SparkSession | None = None, view: str | None = None) -> None:
        self._schema = schema
        self._spark = spark
        self._view = view
        self._epochs: dict[int, pa.Table] = {}
        self._lock = threading.Lock()
        if spark is not None and view is not None:
            spark.createDataFrame([], schema).createOrReplaceTempView(view)

    def write(self, result: DataFrame, epoch: int) -> None:
        """Replace the rows of an earlier run of the epoch."""
        table = result.toArrow()
        with self._lock:
            replaced = self._epochs.get(epoch)
            self._epochs[epoch] = table
        if self._spark is not None and self._view is not None and (table.num_rows or replaced is not None):
            self._spark.createDataFrame(self.table(), self._schema).createOrReplaceTempView(self._view)

    def epochs(self) -> list[int]:
        """The collected epochs, ascending, including those without rows."""
        with self._lock:
            return sorted(self._epochs)

    def table(self, epoch: int | None = None) -> pa.Table:
        """The rows of one epoch, or of all in their order.

        Raises:
            KeyError: there is no such epoch.
        """
        with self._lock:
            if epoch is not None:
                return self._epochs[epoch]
            tables = [self._epochs[each] for each in sorted(self._epochs)]
        return pa.concat_tables(tables) if tables else self._nothing()

    def rows(self, epoch: int | None = None) -> list[Row]:
        """The same as PySpark rows.

        Raises:
            KeyError: there is no such epoch.
        """
        table = self.table(epoch)
        if not table.num_rows:
            return []
        try:
            return list(ArrowTableToRowsConversion.convert(table, self._schema))
        except UnicodeDecodeError:
            # Spark's strings can be any bytes. `collect` replaces what is not UTF-8, as for every other DataFrame.
            return SparkSession.active().createDataFrame(table, self._schema).collect()

    def close(self) -> None:
        """The rows stay readable."""

    def _nothing(self) -> pa.Table:
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self._schema).empty_table()
