"""Where the time of a calm epoch goes, part by part: Spark's own bookkeeping, planning, the job, the tasks, the record.

Parts marked ``spark`` are Spark's own (`StreamingQueryProgress.durationMs`), parts marked ``task`` are the slowest worker's.
Medians; results also go to `results/epoch.json`.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench_calm import WARM_EPOCHS
from measuring import Bench, bench, percentile, save, table
from pyspark.sql import functions as F

import binshift

SPARKS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets", "triggerExecution")


def main() -> None:
    """Run one query for some epochs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--bins", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    with bench(2, **{"spark.sql.streaming.numRecentProgressUpdates": "100000"}) as running:
        rows = profile(running, args)
    print(table(rows))
    save("epoch", rows)


def profile(running: Bench, args: argparse.Namespace) -> list[dict[str, object]]:
    """One row for each part."""
    stream = running.stream(keys=args.keys, prefill=args.keys, rate=args.rate)
    frame = binshift.stateful(stream, bins=args.bins, workers=2).groupBy("k").agg(F.count("*").alias("n"))
    writer = frame.writeStream.format("noop").outputMode("update")
    query: Any = writer.option("checkpointLocation", running.checkpoint()).start()
    query.await_epoch(WARM_EPOCHS + args.epochs, 300)
    query.stop()
    found: dict[str, list[float]] = {}
    for progress in query.recentProgress[WARM_EPOCHS:]:
        for part in SPARKS:
            found.setdefault(f"spark {part}", []).append(progress["durationMs"].get(part, 0))
    for timing in query.timings[WARM_EPOCHS:]:
        for part, seconds in timing.seconds.items():
            found.setdefault(part.replace("_", " ", 1), []).append(seconds * 1000)
    return [
        {"part": part, "p50_ms": percentile(ms, 50), "p99_ms": percentile(ms, 99), "epochs": len(ms)}
        for part, ms in found.items()
    ]


if __name__ == "__main__":
    main()
