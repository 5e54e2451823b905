"""The loss of an executor, with and without standby copies: how long nothing is committed around its SIGKILL, open loop.

Both queries run in one session on the same three workers, one after the other, and each loses an executor several times. Spark's
worker process starts another executor at once, as a supervisor would; the next kill waits until it has its bins back and, with
standbys, until all copies are complete. Driver, source and workers share the machine's cores: the restart of a JVM slows all of them.
"""

from __future__ import annotations

import os
import signal
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import pairwise, takewhile
from statistics import median
from typing import Any

from archive import save
from latency import Latencies, latencies_of
from measuring import Bench, await_batch, await_true, bench, is_whole
from options import WATCH, parsed, parser
from pyspark.sql import functions as F
from rich.progress import track
from tables import text
from targets import Row, Target, verdicts

import binshift
from binshift.model import Worker
from openloop import percentile

WORKERS = 3
READY_SECONDS_MAX = 120.0
POLL_SECONDS = 0.1
SLOW = 2.0
"""An epoch that takes so many times the usual time is lost, as in docs/faults.md."""


def _stands(row: Row) -> bool:
    return bool(row["standbys"])


TARGETS = (
    Target("longest silence of all kills", "silent_max_s", 1.5, of=_stands, unit=" s"),
    Target("epochs lost, at most", "epochs_lost", 2, of=_stands),
)


def main() -> None:
    """Kill executors of both."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, nargs="+", default=[100_000, 1_000_000], help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--bins", type=int, default=1024)
    made.add_argument("--kills", type=int, default=5, help="executors killed in each case")
    made.add_argument("--settle-epochs", type=int, default=40, help="unmeasured epochs after each filling")
    made.add_argument("--calm-seconds", type=float, default=8.0, help="measured seconds before and after each kill")
    quick = {"keys": [1000], "rate": 1000, "bins": 16, "settle_epochs": 4, "calm_seconds": 2.0, "kills": 1}
    args = parsed(made, quick)
    rows = []
    with bench(WORKERS) as running:
        for keys in track(args.keys, description="keys"):
            for standbys in (0, 1):
                rows.append(killed(running, keys, standbys, args))
                print(text(rows[-1:]), flush=True)
            if not args.quick:
                save("standby", rows[-2:], ["keys", "standbys"], elsewhere=WATCH.cores())
    print(text(verdicts(rows, TARGETS, named)))


def killed(running: Bench, keys: int, standbys: int, args: Namespace) -> Row:
    """Fill, wait until calm, and kill executors in turns; the figures of all kills."""
    stream = running.stream(keys=keys, prefill=keys, rate=args.rate)
    frame = stream.groupBy("k").agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    writer = binshift.writeStream(frame, workers=WORKERS, bins=args.bins, standby_replicas=standbys).format("noop")
    query = writer.outputMode("update").option("checkpointLocation", running.checkpoint()).start()
    await_batch(query, args.settle_epochs)
    times = list(_kills(running, query, args))
    query.stop()
    found = latencies_of(query.recentProgress, keys, args.rate)
    kills = [one_kill(found, *each) for each in times]
    return (
        {"keys": keys, "standbys": standbys} | together(kills) | {"back_s": median(each[2] - each[1] for each in times)}
    )


def _kills(running: Bench, query: Any, args: Namespace) -> Iterator[tuple[float, float, float, float]]:
    """For each kill: the start of the calm time before it, the kill, when the executor had bins again, and the end of the time after it."""
    executors = query.dataflow.epochs.ports.executors
    _until(lambda: is_whole(query, WORKERS))
    for number in range(args.kills):
        calm_from = time.time()
        time.sleep(args.calm_seconds)
        victim, began = Worker(number % WORKERS), time.time()
        killed = executors.alive()[victim]
        for pid in running.cluster.executor_pids(victim):
            os.kill(pid, signal.SIGKILL)
        _until(lambda: executors.alive().get(victim, killed) != killed and is_whole(query, WORKERS))  # noqa: B023 (called at once)
        back = time.time()
        time.sleep(args.calm_seconds)
        yield calm_from, began, back, began + args.calm_seconds


def _until(holds: Callable[[], bool]) -> None:
    await_true(holds, READY_SECONDS_MAX, POLL_SECONDS)


def one_kill(found: Latencies, calm_from: float, began: float, _: float, until: float) -> dict[str, float]:
    """The figures of one kill, until so long after it.

    >>> from openloop import Span
    >>> spans = [Span(at - 1, at, at + 0.1) for at in (1.0, 2.0, 3.0, 6.0, 7.0)]
    >>> one_kill(Latencies(spans), 0.0, 3.5, 8.0, 8.0) | {"worst_record_s": 0}
    {'calm_p50_s': 0.6, 'calm_p99_s': 1.1, 'silent_s': 3.0, 'epochs_lost': 1, 'worst_record_s': 0}
    """
    calm = found.calm(calm_from, began)
    pairs = list(pairwise(span.committed for span in found.spans))
    usual = median([b - a for a, b in pairs if calm_from <= a and b <= began] or [b - a for a, b in pairs])
    after = [b - a for a, b in pairs if b > began and a < until]
    # The epoch that runs at the kill can be past what it needed the executor for.
    lost = list(takewhile(lambda took: took > SLOW * usual, after if after[0] > SLOW * usual else after[1:]))
    return {
        "calm_p50_s": round(percentile(calm, 50), 6),
        "calm_p99_s": round(percentile(calm, 99), 6),
        "silent_s": round(max(after), 6),
        "epochs_lost": len(lost),
        "worst_record_s": percentile(found.moving(began, until), 100),
    }


def together(kills: list[dict[str, float]]) -> dict[str, object]:
    """The figures of all kills of a case."""
    return {
        "kills": len(kills),
        "calm_p50_s": median(each["calm_p50_s"] for each in kills),
        "calm_p99_s": median(each["calm_p99_s"] for each in kills),
        "silent_s": median(each["silent_s"] for each in kills),
        "silent_max_s": max(each["silent_s"] for each in kills),
        "epochs_lost": max(each["epochs_lost"] for each in kills),
        "worst_record_s": max(each["worst_record_s"] for each in kills),
    }


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['keys']:,} keys, {'with' if row['standbys'] else 'without'} standbys"


if __name__ == "__main__":
    main()
