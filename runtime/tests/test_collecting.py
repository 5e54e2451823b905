"""Messages of tasks are released with their job."""

from __future__ import annotations

from pyspark.accumulators import Accumulator, _accumulatorRegistry
from pyspark.sql import SparkSession

from binshift.spark.jobs.collecting import collecting


def test_messages_arrive_and_nothing_stays(spark: SparkSession) -> None:
    """PySpark would keep each accumulator, with its value, until the application ends."""
    before = set(_accumulatorRegistry)
    for epoch in range(3):
        with collecting(spark.sparkContext) as collected:

            def add(n: int, at: int = epoch, to: Accumulator[list[object]] = collected) -> None:
                to.add([(at, n)])

            spark.sparkContext.range(4, numSlices=2).foreach(add)
            assert sorted(collected.value, key=repr) == [(epoch, n) for n in range(4)]
    assert set(_accumulatorRegistry) == before
