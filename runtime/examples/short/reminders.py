"""A processor with a timer: reports a cart in which nothing has been put for half an hour, and forgets it.

    binshift run reminders.py -- IN OUT CHECKPOINT

IN has JSON lines: {"ts": "2024-03-01T12:00:03Z", "cart": "c1", "items": 2}; negative items are an order.
OUT gets parquet files. `test_reminders.py` tests the processor without Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

HALF_AN_HOUR_MS = 30 * 60 * 1000


class Reminder(StatefulProcessor):
    """The items in a cart, and a timer that is moved by every row."""

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self.handle = handle
        self.items = handle.getValueState("items", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Add the rows up; set the timer again, or end it with the order."""
        taken = list(rows)
        (before,) = self.items.get() or (0,)
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        if any(row.items < 0 for row in taken):
            self.items.clear()
        else:
            self.items.update((before + sum(row["items"] for row in taken),))
            latest = max(row.ts.timestamp() for row in taken)
            self.handle.registerTimer(int(latest * 1000) + HALF_AN_HOUR_MS)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Report the cart."""
        (items,) = self.items.get()
        self.items.clear()
        yield Row(cart=key[0], items=items)


def start(source: str, target: str, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spark = SparkSession.builder.getOrCreate()
    carts = spark.readStream.schema("ts timestamp, cart string, items long").json(source)
    idle = (
        carts.withWatermark("ts", "10 seconds")
        .groupBy("cart")
        .transformWithState(Reminder(), "cart string, items long", "Append", "EventTime")
    )
    writer = idle.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
    return writer.format("parquet").start(target)


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
