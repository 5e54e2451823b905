"""Calm epochs: against Spark's own stateful count on the same rows, and as the number of bins grows.

Systems take turns in one run, since a machine's speed drifts; each figure is the median epoch (trigger to commit) of the
turns. Prints ratios; results also go to `results/calm.json`.

Spark runs twice: as it comes, and with its checkpoint files written the way binshift writes them ("quick files"), which
any query could use. What then remains is what bins, log and Python cost or save.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from measuring import Bench, bench, percentile, save, table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.progress import track

import binshift
from binshift.spark.jvm import install

WARM_EPOCHS = 8


def main() -> None:
    """Alternate the systems; print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--bins", type=int, nargs="+", default=[1 << n for n in (1, 4, 8, 10, 12, 14)])
    args = parser.parse_args()
    found: dict[str, list[float]] = {}
    with bench(2, **{"spark.sql.streaming.numRecentProgressUpdates": "100000"}) as running:
        systems: dict[str, Callable[[DataFrame], Any]] = {
            "spark, 2 partitions": lambda s: spark_count(running, s),
            "spark, quick files": lambda s: quick_spark_count(running, s),
        }
        for bins in args.bins:
            systems[f"binshift, {bins} bins"] = lambda s, bins=bins: binshift_count(running, s, bins)
        for turn in track(range(args.turns * len(systems)), description="turns"):
            name = list(systems)[turn % len(systems)]
            stream = running.stream(keys=args.keys, prefill=args.keys, rate=args.rate)
            found.setdefault(name, []).extend(epochs(systems[name](stream), args.seconds))
    rows = _rows(found)
    print(table(rows))
    save("calm", rows)


def spark_count(running: Bench, stream: DataFrame) -> Any:
    """Spark's own stateful count, RocksDB with a changelog."""
    spark = running.spark
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    writer = stream.groupBy("k").agg(F.count("*").alias("n")).writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", running.checkpoint()).start()


def quick_spark_count(running: Bench, stream: DataFrame) -> Any:
    """Spark's own stateful count, with binshift's writer for checkpoint files on local disks."""
    with install(running.spark).local_checkpoints(running.spark):
        return spark_count(running, stream)


def binshift_count(running: Bench, stream: DataFrame, bins: int) -> Any:
    """The same with bins on two workers."""
    frame = binshift.stateful(stream, bins=bins, workers=2).groupBy("k").agg(F.count("*").alias("n"))
    writer = frame.writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", running.checkpoint()).start()


def epochs(query: Any, seconds: float) -> list[float]:
    """Durations of the query's epochs, in seconds, without the first ones."""
    deadline = time.monotonic() + 120
    while len(query.recentProgress) < WARM_EPOCHS and time.monotonic() < deadline:
        time.sleep(0.1)
    skip = len(query.recentProgress)
    time.sleep(seconds)
    query.stop()
    return [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress[skip:] if p["numInputRows"]]


def _rows(found: dict[str, list[float]]) -> list[dict[str, object]]:
    base = percentile(next(iter(found.values())), 50)
    return [
        {
            "system": name,
            "epochs": len(values),
            "p50": percentile(values, 50),
            "p99": percentile(values, 99),
            "over_spark": percentile(values, 50) / base,
        }
        for name, values in found.items()
    ]


if __name__ == "__main__":
    main()
