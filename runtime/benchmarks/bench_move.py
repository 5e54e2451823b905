"""The effect on records while half of the state moves: from 2 warm workers to 4 and back, open loop.

All of it runs on one cluster of four warm workers, whose four JVMs and Pythons share this machine's cores with the driver and
the source. For each move: record latency before and during, the *spike* (worst while moving over the larger calm p99 of before and after), the longest silence
between two commits, rows moved per second, and the workers' memory. A Fluid move flips one bin per epoch, so it lasts as many
epochs as it moves bins: --bins 256 shortens it.
"""

from __future__ import annotations

from argparse import Namespace

from archive import save
from measuring import bench
from mover import Case, out_and_back, warm
from options import WATCH, parsed, parser
from rich.progress import track
from tables import text
from targets import Row, Target, verdicts

STRATEGIES = ("AllAtOnce", "Fluid", "Batched", "Optimized")


def is_prepared(row: Row) -> bool:
    """Whether the targets apply to this way of moving."""
    return bool(row["pre_copy"]) and row["strategy"] in ("Batched", "Optimized")


TARGETS = (
    Target("spike: worst while moving over the larger calm p99", "spike", 1.25, of=is_prepared),
    Target("epochs skipped while moving", "skipped", 0, of=is_prepared),
    Target("rows moved a second", "rows_per_s", 500_000, at_least=True, of=is_prepared),
    Target("more memory while moving", "more_own_memory", 0.05, of=is_prepared),
)


def main() -> None:
    """Run the given cases."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, nargs="+", default=[1_000_000, 4_000_000], help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--bins", type=int, default=1024)
    made.add_argument("--batch-size", type=int, default=256, help="bins per step, for Batched and Optimized")
    made.add_argument("--strategy", nargs="+", choices=STRATEGIES, default=["Optimized", "Batched"])
    made.add_argument("--pre-copy", choices=("with", "without", "both"), default="with", help="copying before flips")
    made.add_argument("--warm-seconds", type=float, default=60.0, help="unmeasured seconds before the first case")
    made.add_argument("--settle-epochs", type=int, default=40, help="unmeasured epochs after each filling")
    made.add_argument("--calm-seconds", type=float, default=15.0, help="measured seconds before each move")
    quick = {"keys": [1000], "bins": 16, "warm_seconds": 2.0, "settle_epochs": 4, "calm_seconds": 2.0, "rate": 1000}
    args = parsed(made, quick)
    rows = []
    with bench(4) as running:
        cases = cases_of(args)
        warm(running, cases[0], args.warm_seconds)
        for case in track(cases, description="moves"):
            rows += out_and_back(running, case, args.settle_epochs, args.calm_seconds)
            print(text(rows[-2:]), flush=True)
            if not args.quick:
                save("move", rows[-2:], ["keys", "bins", "strategy", "pre_copy", "to"], elsewhere=WATCH.cores())
    print(text(verdicts(rows, TARGETS, named)))


def cases_of(args: Namespace) -> list[Case]:
    """Every number of keys with every strategy, with or without pre-copy."""
    copies = {"with": (True,), "without": (False,), "both": (True, False)}[args.pre_copy]
    return [
        Case(keys, args.bins, strategy, pre_copy, args.batch_size, args.rate)
        for keys in args.keys
        for strategy in args.strategy
        for pre_copy in copies
    ]


def named(row: Row) -> str:
    """A short name of a row."""
    copies = "" if row["pre_copy"] else " without pre-copy"
    return f"{row['keys']:,} keys, {row['strategy']}{copies}, {'out' if row['to'] == 4 else 'back'}"


if __name__ == "__main__":
    main()
