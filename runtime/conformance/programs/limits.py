"""Limits: a counter over all batches."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("limits")

NUMBERS = stream("v long", [(1,), (2,)], [(3,), (4,), (5,)], [], [(6,), (7,)], [(8,)])


@case(NUMBERS, source="StreamSuite: streaming limit without state; limit in several batches")
def over_batches(numbers: DataFrame) -> DataFrame:
    """The limit ends within the second batch."""
    return numbers.limit(4)


@case(NUMBERS, source="StreamSuite: streaming limit before and after a filter")
def filtered(numbers: DataFrame) -> DataFrame:
    """A filter before the limit does not use it up, one behind does."""
    return numbers.where("v % 2 = 1").limit(3).where("v > 1")


@case(NUMBERS, source="StreamSuite: streaming limit with other operators")
def two_limits(numbers: DataFrame) -> DataFrame:
    """The smaller of two limits holds."""
    return numbers.limit(5).select((F.col("v") * 10).alias("v")).limit(3)


@case(NUMBERS, source="StreamSuite: limit behind deduplication")
def behind_dedup(numbers: DataFrame) -> DataFrame:
    """Only new values use the limit up."""
    return numbers.select((F.col("v") % 3).alias("v")).dropDuplicates().limit(2)


@case(NUMBERS, NUMBERS, source="StreamSuite: union of a limited stream with another")
def united(numbers: DataFrame, others: DataFrame) -> DataFrame:
    """Only one branch is limited."""
    return numbers.limit(3).union(others.select(F.col("v") + 100))


@case(NUMBERS, mode="update", fails=True, source="StreamSuite: streaming limit in update mode")
def update(numbers: DataFrame) -> DataFrame:
    """A limit needs append mode, or complete mode behind an aggregate."""
    return numbers.limit(2)
