"""What Spark computes between the exchange and S, in the same task, from rows and what is stored.

    exchange -> reads the state (Python) -> Catalyst -> S (Python)

It is for what only the JVM can do with stored rows: merge buffers that only Spark understands, or evaluate a join's condition.
The reader changes nothing; S begins with the first row that it returns (see `binshift.spark.tasks.read_function`).
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from binshift.operators.contract import Processor


class ReadAhead(Protocol):
    """One such step of a stage."""

    @property
    def operator(self) -> Processor:
        """Reads the state, for the rows of the exchange."""

    def read_schema(self, rows: StructType) -> StructType:
        """The columns that it returns, of rows as the exchange delivers them: theirs, and then further ones, which may be null."""

    def applied(self, read: DataFrame) -> DataFrame:
        """The rows for S, from what it returns, in the same order."""
