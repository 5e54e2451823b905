"""The same rescale by Spark's own means and by binshift: 2 to 4 state partitions, 2 to 4 workers, on the same rows.

Spark's way is to stop the query, rewrite its state offline (`spark._streamingCheckpointManager.repartition`, new in 4.2)
and start it again; rows that arrive meanwhile wait. Conditions favour Spark: its four executors are running and warm, the session
is kept, and the stop does not wait for a batch to end (which breaks the guarantee of exactly-once sinks).
"""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

from archive import save
from counting import binshift_count, spark_count
from latency import Latencies, latencies_of
from measuring import Bench, await_batch, bench, measured
from moving import Times, columns
from options import WATCH, parsed, parser
from tables import text
from targets import Row, Target, verdicts

TARGETS = (
    Target("longest silence", "silent_s", 1.5, of=lambda row: row["system"] == "binshift", unit=" s"),
    Target("worst record latency", "moving_max_s", 1.5, of=lambda row: row["system"] == "binshift", unit=" s"),
)
CAUGHT_UP_SECONDS_MAX = 180.0


def main() -> None:
    """Rescale by both means."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=1_000_000, help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--bins", type=int, default=1024)
    made.add_argument("--warm-seconds", type=float, default=25.0, help="unmeasured seconds, for each of the two")
    made.add_argument("--settle-epochs", type=int, default=30, help="unmeasured epochs after each filling")
    made.add_argument("--calm-seconds", type=float, default=15.0, help="measured seconds before the rescale")
    quick = {"keys": 1000, "rate": 1000, "bins": 16, "warm_seconds": 2.0, "settle_epochs": 4, "calm_seconds": 2.0}
    args = parsed(made, quick)
    with bench(4) as running:
        few = {"keys": args.keys // 10, "prefill": args.keys // 10, "rate": args.rate}
        for warming in (spark_count, lambda on, stream: binshift_count(on, stream, args.bins)):
            measured(warming(running, running.stream(**few)), args.warm_seconds)
        rows = [by_spark(running, args), by_binshift(running, args)]
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("respark", rows, ["system", "keys"], elsewhere=WATCH.cores())


def by_spark(running: Bench, args: Namespace) -> dict[str, Any]:
    """Stop, repartition, start; ended when latency is as low as before, or after a time limit."""
    place = running.checkpoint()
    stream = running.stream(keys=args.keys, prefill=args.keys, rate=args.rate)
    query = spark_count(running, stream, 2, place)
    calm_from = _calm(query, args)
    began = time.time()
    query.stop()
    stopped = time.time()
    before = query.recentProgress
    running.spark._streamingCheckpointManager.repartition(place, 4, enforce_exactly_once_sink=False)
    rewritten = time.time()
    query = spark_count(running, stream, 4, place)
    await_batch(query, before[-1]["batchId"] + 4)
    time.sleep(2 * args.calm_seconds)
    query.stop()
    found = latencies_of([*before, *query.recentProgress], args.keys, args.rate)
    ended = _recovered(found, Times(calm_from, began, rewritten))
    row = columns(found, Times(calm_from, began, ended))
    parts = {"stop_s": stopped - began, "rewrite_s": rewritten - stopped}
    return {"system": "spark", "keys": args.keys} | row | parts


def by_binshift(running: Bench, args: Namespace) -> dict[str, Any]:
    """One call; the query keeps running."""
    query = binshift_count(running, running.stream(keys=args.keys, prefill=args.keys, rate=args.rate), args.bins)
    calm_from = _calm(query, args)
    began = time.time()
    query.rescale(4).wait(CAUGHT_UP_SECONDS_MAX)
    ended = time.time()
    time.sleep(args.calm_seconds)
    query.stop()
    found = latencies_of(query.recentProgress, args.keys, args.rate)
    return {"system": "binshift", "keys": args.keys} | columns(found, Times(calm_from, began, ended))


def _calm(query: Any, args: Namespace) -> float:
    """Wait until the query has settled, and then for the calm time; returns the start of that time."""
    await_batch(query, args.settle_epochs)
    began = time.time()
    time.sleep(args.calm_seconds)
    return began


def _recovered(found: Latencies, times: Times) -> float:
    """When latency is first as low as the highest of calm times; ``times.ended`` is when the query was running again."""
    usual = max(found.calm(times.calm_from, times.began), default=0.0)
    later = [(due, latency) for due, latency in found.buckets() if due >= times.ended]
    return next((due for due, latency in later if latency <= usual), later[-1][0] if later else times.ended)


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['keys']:,} keys, {row['system']}"


if __name__ == "__main__":
    main()
