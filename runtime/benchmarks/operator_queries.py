"""The queries of `bench_operators`: plain PySpark over the open-loop source, the same for Spark and for binshift.

Event time is the time at which a row is due, so that windows close and state leaves at the speed of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from counting import ROCKSDB
from measuring import Bench
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import binshift

Query = Callable[[], DataFrame]
"""Makes a streaming frame."""

PORTIONS = 100
"""Of the filled join state; the watermark reaches one at a time."""

EVICTED_DELAY_SECONDS = 100_000


def started(running: Bench, query: DataFrame, engine: str, bins: int, workers: int = 2) -> Any:
    """A query in append mode to nowhere, on Spark with its fastest durable state, or on binshift."""
    if engine == "binshift":
        writer: Any = binshift.writeStream(query, bins=bins, workers=workers)
    else:
        running.spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        running.spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        writer = query.writeStream
    return writer.format("noop").outputMode("append").option("checkpointLocation", running.checkpoint()).start()


def events(running: Bench, keys: int, **source: int) -> DataFrame:
    """The source with an event time ``ts`` and a watermark."""
    return running.stream(keys=keys, **source).withColumn("ts", F.expr("timestamp_millis(due_ms)"))


def chain(running: Bench, stages: int, keys: int, rate: int) -> DataFrame:
    """Windows of one second by key; the counts in larger windows; and those in still larger ones."""
    stream = events(running, keys, rate=rate).withWatermark("ts", "1 second")
    found = stream.groupBy(F.window("ts", "1 second"), "k").agg(F.count("*").alias("n"))
    for seconds in (2, 4)[: stages - 1]:
        by = (F.window("window", f"{seconds} seconds"), F.expr("k % 1000").alias("k"))
        found = found.groupBy(*by).agg(F.sum("n").alias("n"))
    return found


def hottest(running: Bench, keys: int, rate: int) -> DataFrame:
    """NEXMark's query 5: the keys with the most rows in each sliding window."""
    bids = events(running, keys, rate=rate).withWatermark("ts", "1 second")
    counts = bids.groupBy(F.window("ts", "10 seconds", "2 seconds"), "k").agg(F.count("*").alias("n"))
    most = counts.groupBy(F.window("window", "10 seconds").alias("w")).agg(F.max("n").alias("most"))
    return counts.join(most, F.expr("window = w AND n = most")).select("window.end", "k", "n")


def range_join(running: Bench, keys: int, seconds: int = 5, **source: int) -> DataFrame:
    """Rows of two streams with one key, the second at most some seconds after the first: an inner join."""
    left, right = (
        events(running, keys, **source)
        .select(F.col("k").alias(f"{side}_key"), F.col("ts").alias(f"{side}_at"))
        .withWatermark(f"{side}_at", "1 second")
        for side in ("shown", "clicked")
    )
    late = f"clicked_at BETWEEN shown_at AND shown_at + INTERVAL {seconds} SECONDS"
    return left.join(right, F.expr(f"shown_key = clicked_key AND {late}"))


def twice(running: Bench, timed: bool, batch: int, rate: int) -> DataFrame:
    """Every row twice; of two, one passes. Keys with the event time leave the state, others are kept forever."""
    stream = events(running, 1, batch=batch, rate=rate).select(F.expr("value div 2 AS id"), "ts")
    return stream.withWatermark("ts", "1 second").dropDuplicates(["id", "ts"] if timed else ["id"])


def sessions(running: Bench, keys: int, batch: int, rate: int) -> DataFrame:
    """Counts by session; a key's two rows follow each other, and the next two come after the gap."""
    stream = events(running, keys, batch=batch, rate=rate).withWatermark("ts", "1 second")
    key = F.expr(f"pmod((value div 2) * 7919, {keys})").alias("key")
    return stream.groupBy(F.session_window("ts", "5 seconds"), key).agg(F.count("*").alias("n"))


def evicting(running: Bench, rows: int, batch: int) -> DataFrame:
    """A join whose left side is filled with rows that end in portions: the watermark reaches one with every second batch."""
    end = 1_700_000_000
    number = f"(value - {rows}) div {batch} div 2"
    filled = f"{end} + value div {rows // PORTIONS}"
    sides = []
    for side, prefill in (("old", rows), ("new", 1)):
        moving = number.replace(str(rows), str(prefill))
        seconds = F.expr(
            f"CASE WHEN value < {rows} AND '{side}' = 'old' THEN {filled} ELSE {end} + {EVICTED_DELAY_SECONDS} + {moving} END"
        )
        stream = running.stream(keys=1, prefill=prefill, batch=batch)
        timed = stream.select(F.col("value").alias(f"{side}_key"), F.timestamp_seconds(seconds).alias(f"{side}_at"))
        sides.append(timed.withWatermark(f"{side}_at", f"{EVICTED_DELAY_SECONDS} seconds"))
    return sides[0].join(
        sides[1], F.expr("old_key = new_key AND new_at BETWEEN old_at AND old_at + INTERVAL 0 SECONDS")
    )


def throughputs(running: Bench, keys: int, batch: int, rate: int) -> Mapping[str, Query]:
    """The queries whose rows per second are measured; both streams of the join together have the batch's rows."""
    return {
        "inner range join": partial(range_join, running, keys, batch=batch // 2, rate=rate),
        "dropDuplicates, kept": partial(twice, running, False, batch, rate),
        "dropDuplicates, by time": partial(twice, running, True, batch, rate),
        "session windows": partial(sessions, running, keys, batch, rate),
    }
