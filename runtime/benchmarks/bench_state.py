"""Whether the peak grows with the state: the same move at 250,000 to 4,000,000 keys, with proportionally more bins.

The number of keys per bin is constant, so that a flip always moves the same amount and only the number of flips grows. The peak
while moving should then be constant, and the move should last longer.
"""

from __future__ import annotations

from typing import Any

from archive import save
from measuring import bench
from mover import Case, out_and_back, warm
from options import WATCH, parsed, parser
from rich.progress import track
from tables import text
from targets import Row, Target, verdicts

TARGETS = (Target("peak while moving over that of the smallest state", "peak_over_first", 1.2),)


def main() -> None:
    """Move each state out and back."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=250_000, help="keys in the smallest state")
    made.add_argument("--bins", type=int, default=256, help="bins of the smallest state")
    made.add_argument(
        "--times", type=int, nargs="+", default=[1, 4, 16], help="sizes of the states, as multiples of the smallest"
    )
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--warm-seconds", type=float, default=60.0, help="unmeasured seconds before the first case")
    made.add_argument("--settle-epochs", type=int, default=40, help="unmeasured epochs after each filling")
    made.add_argument("--calm-seconds", type=float, default=15.0, help="measured seconds before each move")
    quick = {"keys": 500, "bins": 8, "warm_seconds": 2.0, "settle_epochs": 4, "calm_seconds": 2.0, "rate": 1000}
    args = parsed(made, quick | {"times": [1, 2]})
    cases = [Case(args.keys * times, args.bins * times, rate=args.rate) for times in args.times]
    rows: list[dict[str, Any]] = []
    with bench(4) as running:
        warm(running, cases[0], args.warm_seconds)
        for case in track(cases, description="states"):
            rows += out_and_back(running, case, args.settle_epochs, args.calm_seconds)
    for row in rows:
        first = next(each for each in rows if each["to"] == row["to"])
        row["peak_over_first"] = row["moving_max_s"] / first["moving_max_s"]
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("state", rows, ["keys", "bins", "to"], elsewhere=WATCH.cores())


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['keys']:,} keys, {'out' if row['to'] == 4 else 'back'}"


if __name__ == "__main__":
    main()
