"""The spike of a move: half of the state from 2 workers to 4 and back, open loop, by strategy and with or without pre-copy.

Prints, for each move: calm and moving record latency (p50, p99, max over 250 ms buckets), the spike (max while moving
over p99 before), duration, and rows/s moved. Results also go to `results/move.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from typing import Any

from measuring import Bench, Latencies, bench, save, summary, table
from pyspark.sql import functions as F
from rich.progress import track

import binshift

WARM_EPOCHS = 60
"""Epochs before anything is measured: until then the JVMs compile, which would flatter every later ratio."""

CALM_SECONDS = 12.0
SETTLE_SECONDS = 3.0


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    keys: int
    strategy: str
    pre_copy: bool
    batch_size: int = 256


def main() -> None:
    """Run the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--bins", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--strategy", nargs="+", default=["Optimized"])
    parser.add_argument("--no-pre-copy", action="store_true", help="also without pre-copy")
    args = parser.parse_args()
    cases = [Case(k, s, True, args.batch_size) for k in args.keys for s in args.strategy]
    if args.no_pre_copy:
        cases += [Case(k, s, False, args.batch_size) for k in args.keys for s in args.strategy]
    rows: list[dict[str, Any]] = []
    for case in track(cases, description="moves"):
        with bench(4, **{"spark.sql.streaming.numRecentProgressUpdates": "100000"}) as running:
            rows += run(running, case, args.rate, args.bins)
        print(table(rows))
    save("move", rows)


def run(running: Bench, case: Case, rate: int, bins: int) -> list[dict[str, Any]]:
    """Fill, wait until calm, move out, move back."""
    stream = running.stream(keys=case.keys, prefill=case.keys, rate=rate)
    counts = binshift.stateful(stream, workers=2, bins=bins, batch_size=case.batch_size).groupBy("k")
    frame = counts.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    writer = frame.writeStream.format("noop").outputMode("update")
    query: Any = writer.option("checkpointLocation", running.checkpoint()).start()
    query.await_epoch(WARM_EPOCHS, 300)
    time.sleep(SETTLE_SECONDS)
    rows = []
    for workers in (4, 2):
        calm_from = time.time()
        time.sleep(CALM_SECONDS)
        began = time.time()
        migration = query.rescale(workers, strategy=case.strategy, pre_copy=case.pre_copy)
        migration.wait(300)
        ended = time.time()
        time.sleep(SETTLE_SECONDS)
        rows.append(_row(query, case, rate, workers, (calm_from, began, ended)))
    query.stop()
    return rows


def _row(query: Any, case: Case, rate: int, workers: int, times: tuple[float, float, float]) -> dict[str, Any]:
    calm_from, began, ended = times
    latencies = latencies_of(query, case.keys, rate)
    calm, moving = summary(latencies.between(calm_from, began)), summary(latencies.between(began, ended))
    epochs = [t for t in query.timings if began <= t.committed_at <= ended]
    return {
        "keys": case.keys,
        "strategy": case.strategy,
        "pre_copy": case.pre_copy,
        "to": workers,
        "calm_p50": calm["p50"],
        "calm_p99": calm["p99"],
        "moving_p50": moving["p50"],
        "moving_max": moving["max"],
        "spike": moving["max"] / calm["p99"],
        "seconds": ended - began,
        "rows_per_s": case.keys / 2 / (ended - began),
        "epochs": len(epochs),
        "reruns": sum(t.runs - 1 for t in epochs),
    }


def latencies_of(query: Any, prefill: int, rate: int) -> Latencies:
    """Due times from the offsets in Spark's progress, commit times from the query's own timings."""
    committed = {t.epoch: t.committed_at for t in query.timings}
    found = Latencies()
    for progress in query.recentProgress:
        ends = [source["endOffset"] for source in progress["sources"] if "OpenLoop" in source["description"] or True]
        starts = [source["startOffset"] for source in progress["sources"]]
        for start, end in zip(starts, ends, strict=True):
            pair = [json.loads(each) if isinstance(each, str) else each for each in (start, end)]
            if all(isinstance(each, list) and len(each) == 2 for each in pair) and progress["batchId"] in committed:
                first, last = (pair[1][1] / 1000 + max(0, each[0] - prefill) / rate for each in pair)
                if last > first:
                    found.epochs.append((progress["batchId"], first, last, committed[progress["batchId"]]))
    return found


if __name__ == "__main__":
    main()
