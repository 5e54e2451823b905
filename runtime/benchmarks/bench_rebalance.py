"""The effect on records while a quarter of the state moves between workers that are all active before and after, open loop.

This is how Megaphone was evaluated (PVLDB 12(9), section 5). Half of the keys of half of the workers move away, which is not
measured, and then back, which is. The number of active workers is the same before, meanwhile and after, so the figures have the
cost of the move alone, and not that of two more workers on the same cores (`bench_move`). The move is repeated; the *spike* is the worst
record while moving over the larger calm p99 of before and after.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from statistics import median
from typing import Any

from archive import save
from elsewhere import used_here
from latency import Latencies, latencies_of
from measuring import Bench, await_batch, bench
from mover import MOVE_SECONDS_MAX, Case, start, warm
from moving import SETTLE_SECONDS
from options import WATCH, parsed, parser
from rich.progress import track
from tables import text
from targets import Row, Target, verdicts

from binshift.model import Bin, Worker
from openloop import percentile

WORKERS = 4
TARGETS = (
    Target("spike of the median move: worst record over calm p99", "spike_median", 1.1),
    Target("spike of the worst move", "spike_worst", 1.25),
    Target("worst record of all moves", "worst_record_s", 0.3, unit=" s"),
    Target("epochs skipped", "skipped", 0),
    Target("rows moved a second", "rows_per_s", 1_000_000, at_least=True),
)


def main() -> None:
    """Run the given cases."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, nargs="+", default=[1_000_000, 4_000_000], help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--bins", type=int, default=1024)
    made.add_argument("--batch-size", type=int, default=256, help="bins per step")
    made.add_argument("--strategy", nargs="+", default=["Optimized", "Batched"])
    made.add_argument("--moves", type=int, default=5, help="measured moves of each case")
    made.add_argument("--warm-seconds", type=float, default=60.0, help="unmeasured seconds before the first case")
    made.add_argument("--settle-epochs", type=int, default=40, help="unmeasured epochs after each filling")
    made.add_argument("--calm-seconds", type=float, default=8.0, help="measured seconds before and after each move")
    quick = {"keys": [1000], "bins": 16, "warm_seconds": 2.0, "settle_epochs": 4, "calm_seconds": 2.0, "rate": 1000}
    args = parsed(made, quick | {"moves": 1})
    rows = []
    with bench(WORKERS) as running:
        cases = [
            Case(keys, args.bins, name, True, args.batch_size, args.rate)
            for keys in args.keys
            for name in args.strategy
        ]
        warm(running, cases[0], args.warm_seconds)
        for case in track(cases, description="cases"):
            rows.append(measured(running, case, args))
            print(text(rows[-1:]), flush=True)
            if not args.quick:
                save("rebalance", rows[-1:], ["keys", "bins", "strategy"], elsewhere=WATCH.cores())
    print(text(verdicts(rows, TARGETS, named)))


def measured(running: Bench, case: Case, args: Namespace) -> Row:
    """Fill, spread over all workers, and then move a quarter away and back, several times."""
    query = start(running, case)
    await_batch(query, args.settle_epochs)
    query.rescale(WORKERS, strategy=case.strategy).wait(MOVE_SECONDS_MAX)
    owners = {Bin(bin): Worker(int(owner)) for bin, owner in enumerate(query.route.owners)}
    time.sleep(SETTLE_SECONDS)
    calm = _calm(query, args.calm_seconds)
    times = []
    for _ in range(args.moves):
        _move(query, case, away(owners))
        time.sleep(SETTLE_SECONDS)
        start_of_calm = time.time()
        time.sleep(args.calm_seconds)
        moved_from, moved_to = _move(query, case, {bin: owners[bin] for bin in away(owners)})
        time.sleep(args.calm_seconds)
        times.append((start_of_calm, moved_from, moved_to, time.time()))
    query.stop()
    found = latencies_of(query.recentProgress, case.keys, case.rate)
    moves = [one_move(found, *each) for each in times]
    return {"keys": case.keys, "bins": case.bins, "strategy": case.strategy} | calm | together(moves, case.keys / 4)


def _calm(query: Any, seconds: float) -> dict[str, float]:
    began, busy, first = time.time(), sum(used_here().values()), query.epoch
    time.sleep(seconds)
    epochs = max(1, query.epoch - first)
    took = time.time() - began
    busy = sum(used_here().values()) - busy
    return {"epochs_per_s": epochs / took, "cpu_ms_per_epoch": 1000 * busy / epochs, "cores": busy / took}


def away(owners: Mapping[Bin, Worker]) -> dict[Bin, Worker]:
    """Every second bin of the first half of the workers, to a worker of the other half.

    >>> away({Bin(0): Worker(0), Bin(1): Worker(0), Bin(2): Worker(1), Bin(3): Worker(1), Bin(4): Worker(3)})
    {0: 2, 2: 3}
    """
    half, found = WORKERS // 2, dict[Bin, Worker]()
    for worker in range(half):
        bins = [bin for bin, owner in owners.items() if owner == worker]
        found |= {bin: Worker(worker + half) for bin in bins[::2]}
    return found


def _move(query: Any, case: Case, moves: Mapping[Bin, Worker]) -> tuple[float, float]:
    began = time.time()
    query.move(moves, strategy=case.strategy, batch_size=case.batch_size, pre_copy=True).wait(MOVE_SECONDS_MAX)
    return began, time.time()


def one_move(found: Latencies, calm_from: float, began: float, ended: float, calm_to: float) -> dict[str, float]:
    """The figures of one move."""
    before, after = found.calm(calm_from, began), found.calm(ended, calm_to)
    worst = percentile(found.moving(began, ended), 100)
    return {
        "calm_p50_s": percentile(before + after, 50),
        "calm_p99_s": max(percentile(before, 99), percentile(after, 99)),
        "worst_s": worst,
        "spike": worst / max(percentile(before, 99), percentile(after, 99)),
        "seconds": ended - began,
        "skipped": found.skipped((calm_from, began), (began, ended)),
    }


def together(moves: list[dict[str, float]], rows: float) -> dict[str, object]:
    """The figures of all moves of a case; ``rows`` is what each of them moves."""
    return {
        "moves": len(moves),
        "calm_p50_s": median(each["calm_p50_s"] for each in moves),
        "calm_p99_s": median(each["calm_p99_s"] for each in moves),
        "worst_record_s": max(each["worst_s"] for each in moves),
        "spike_median": median(each["spike"] for each in moves),
        "spike_worst": max(each["spike"] for each in moves),
        "seconds": median(each["seconds"] for each in moves),
        "rows_per_s": median(rows / each["seconds"] for each in moves),
        "skipped": sum(each["skipped"] for each in moves),
    }


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['keys']:,} keys, {row['strategy']}"


if __name__ == "__main__":
    main()
