"""Calm epochs: binshift against Spark's own stateful count on the same rows.

Spark runs with 2, 16 and 64 state partitions: the number that its checkpoint fixes forever, and so the most workers the query
could ever have. binshift's 4,096 bins allow 4,096. Each figure is an epoch from trigger to commit.

binshift runs once with a Spark job for each epoch, and once in standing tasks.

Spark runs a second time with 2 partitions and its checkpoint files written the way binshift writes them ("quick
files"), which any query on local disks could use: the remaining difference is the cost or gain of bins, log and Python.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from archive import save
from counting import binshift_count, quick_spark_count, spark_count
from measuring import Bench, System, Turn, bench, take_turns
from options import WATCH, parsed, parser
from tables import text
from targets import Row, Target, verdicts

from openloop import percentile

BASE = "spark, 2 partitions"
TARGETS = (
    Target("calm epoch over Spark's at 2 partitions", "over_spark", 0.8, of=lambda row: "bins" in row["system"]),
    Target("the same in standing tasks", "over_spark", 0.25, of=lambda row: "standing" in row["system"]),
    Target("calm epoch in standing tasks, p50", "p50_s", 0.03, of=lambda row: "standing" in row["system"], unit=" s"),
    Target("calm epoch in standing tasks, p99", "p99_s", 0.09, of=lambda row: "standing" in row["system"], unit=" s"),
    Target("the dream: calm epoch, p50", "p50_s", 0.2, of=lambda row: "bins" in row["system"], unit=" s"),
)


def main() -> None:
    """Alternate the systems; print medians and ratios."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=100_000, help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--bins", type=int, nargs="+", default=[2, 4096], help="binshift's cases")
    made.add_argument("--partitions", type=int, nargs="+", default=[2, 16, 64], help="Spark's cases")
    made.add_argument("--turns", type=int, default=2, help="turns of each system")
    made.add_argument("--seconds", type=float, default=12.0, help="seconds of a turn")
    made.add_argument("--warm-seconds", type=float, default=25.0, help="unmeasured seconds, for Spark and for binshift")
    args = parsed(
        made, {"keys": 1000, "rate": 1000, "seconds": 3.0, "turns": 1, "warm_seconds": 3.0, "partitions": [2, 4]}
    )
    with bench(2) as running:
        found = take_turns(
            systems(running, args),
            partial(running.stream, keys=args.keys, prefill=args.keys, rate=args.rate),
            turns=args.turns,
            seconds=args.seconds,
            warm=(BASE, f"binshift, {args.bins[-1]} bins", f"binshift, {args.bins[-1]} bins, standing"),
            warm_seconds=args.warm_seconds,
        )
    rows = table_of(found, BASE)
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("calm", rows, ["system"], elsewhere=WATCH.cores())


def systems(running: Bench, args: Namespace) -> dict[str, System]:
    """The systems that take turns."""
    found: dict[str, System] = {}
    for partitions in args.partitions:
        found[f"spark, {partitions} partitions"] = partial(spark_count, running, partitions=partitions)
        if partitions == 2:
            found["spark, 2 partitions, quick files"] = partial(quick_spark_count, running)
    for bins in args.bins:
        found[f"binshift, {bins} bins"] = partial(binshift_count, running, bins=bins, standing_tasks=False)
        found[f"binshift, {bins} bins, standing"] = partial(binshift_count, running, bins=bins)
    return found


def table_of(found: dict[str, Turn], base: str) -> list[dict[str, object]]:
    """A row for each system."""
    first = percentile(found[base].seconds, 50)
    return [
        {
            "system": name,
            "epochs": len(turn.seconds),
            "p50_s": percentile(turn.seconds, 50),
            "p99_s": percentile(turn.seconds, 99),
            "over_spark": percentile(turn.seconds, 50) / first,
        }
        for name, turn in found.items()
    ]


def named(row: Row) -> str:
    """A short name of a row."""
    return str(row["system"])


if __name__ == "__main__":
    main()
