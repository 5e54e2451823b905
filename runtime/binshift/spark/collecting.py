"""What the tasks of one job tell the driver: collected by an accumulator, and forgotten with it.

PySpark keeps every accumulator of an application, with its value, until the application ends. A query makes one an epoch and
one a background round, so each is taken out of PySpark's registry once its job has ended; what a task tells later is dropped,
as PySpark does with accumulators that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam, _accumulatorRegistry


class Collected(AccumulatorParam[list[object]]):
    """An accumulator of messages; duplicates are told apart by their fence and worker."""

    def zero(self, value: list[object]) -> list[object]:
        """Nothing collected."""
        return []

    def addInPlace(self, value1: list[object], value2: list[object]) -> list[object]:  # noqa: N802 (Spark's name)
        """Append."""
        value1 += value2
        return value1


@contextmanager
def collecting(context: SparkContext) -> Iterator[Accumulator[list[object]]]:
    """An accumulator for the jobs that are run in here; its value is to be read in here, too."""
    made = context.accumulator([], Collected())
    try:
        yield made
    finally:
        _accumulatorRegistry.pop(made.aid, None)
