"""The cost of bins in calm times: the same count with 2^0 to 2^16 bins on two workers.

A bin is not a task, so many of them should cost little. The baseline is one bin per worker; with a single bin one worker has
all the state and the other none. Each figure is an epoch from trigger to commit.
"""

from __future__ import annotations

from functools import partial

from archive import save
from counting import binshift_count
from measuring import Turn, bench, take_turns
from options import WATCH, parsed, parser
from tables import text
from targets import Row, Target, verdicts

from openloop import percentile

TARGETS = (
    Target("calm epoch over one bin a worker", "over_2_bins", 1.05, of=lambda row: 2 < row["bins"] <= 1 << 12),
    Target("calm epoch over one bin a worker", "over_2_bins", 1.15, of=lambda row: row["bins"] == 1 << 14),
)


def main() -> None:
    """Alternate the numbers of bins; print medians and ratios."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=100_000, help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument(
        "--bits", type=int, nargs="+", default=[0, 1, 4, 8, 10, 12, 14, 16], help="2^BITS bins; 1 among them"
    )
    made.add_argument("--turns", type=int, default=2, help="turns of each case")
    made.add_argument("--seconds", type=float, default=12.0, help="seconds of a turn")
    made.add_argument("--warm-seconds", type=float, default=40.0, help="unmeasured seconds before the first turn")
    args = parsed(
        made, {"keys": 1000, "rate": 1000, "seconds": 3.0, "turns": 1, "warm_seconds": 3.0, "bits": [0, 1, 4]}
    )
    with bench(2) as running:
        found = take_turns(
            {str(1 << bits): partial(binshift_count, running, bins=1 << bits) for bits in args.bits},
            partial(running.stream, keys=args.keys, prefill=args.keys, rate=args.rate),
            turns=args.turns,
            seconds=args.seconds,
            warm=("2",),
            warm_seconds=args.warm_seconds,
        )
    rows = table_of(found)
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("bins", rows, ["bins"], elsewhere=WATCH.cores())


def table_of(found: dict[str, Turn]) -> list[dict[str, object]]:
    """A row for each number of bins."""
    first = percentile(found["2"].seconds, 50)
    return [
        {
            "bins": int(bins),
            "epochs": len(turn.seconds),
            "p50_s": percentile(turn.seconds, 50),
            "p99_s": percentile(turn.seconds, 99),
            "over_2_bins": percentile(turn.seconds, 50) / first,
        }
        for bins, turn in found.items()
    ]


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['bins']:,} bins"


if __name__ == "__main__":
    main()
