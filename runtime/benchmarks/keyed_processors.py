"""Users' code of `bench_processors`: classes and a function that count the rows of each key, and a class that keeps lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

ELEMENTS = 10
"""Of a list."""


def longs(*names: str) -> StructType:
    """A schema of whole numbers."""
    return StructType([StructField(name, LongType()) for name in names])


ROWS, VALUE = longs("k", "due"), longs("n")


class Counting(StatefulProcessor):
    """Counts the rows of each key; a row with a time registers a timer."""

    def init(self, handle: Any) -> None:
        """See PySpark."""
        self.handle = handle
        self.count = handle.getValueState("count", VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[SparkRow], timerValues: Any) -> Iterator[SparkRow]:
        """See PySpark."""
        found = self.count.get()
        n = 0 if found is None else found[0]
        for row in rows:
            n += 1
            if row.due:
                self.handle.registerTimer(row.due)
        self.count.update((n,))
        yield SparkRow(k=key[0], due=n)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:
        """See PySpark."""
        found = self.count.get()
        yield SparkRow(k=key.k, due=found[0])


class Listing(StatefulProcessor):
    """Keeps the last rows of each key, as elements with numbers and a text."""

    def init(self, handle: Any) -> None:
        """See PySpark."""
        self.last = handle.getListState("last", "k bigint, due bigint, n bigint, text string")

    def handleInputRows(self, key: Any, rows: Iterator[SparkRow], timerValues: Any) -> Iterator[SparkRow]:
        """See PySpark."""
        before = list(self.last.get()) or [(key[0], 0, n, f"element {n}") for n in range(ELEMENTS)]
        new = [(row.k, row.due, before[-1][2] + 1, f"element {row.k}") for row in rows]
        self.last.put([*before, *new][-ELEMENTS:])
        yield SparkRow(k=key[0], due=new[-1][2])


class CountingFrames(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: Any) -> None:
        """See PySpark."""
        self.count = handle.getValueState("count", VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """See PySpark."""
        found = self.count.get()
        n = (0 if found is None else found[0]) + sum(map(len, rows))
        self.count.update((n,))
        yield pd.DataFrame({"k": [key[0]], "due": [n]})


def counted(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Counts the rows of each key."""
    n = (state.get[0] if state.exists else 0) + sum(map(len, frames))
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "due": [n]})
