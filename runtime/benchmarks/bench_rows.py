"""Rows per second on this machine's cores: every batch has a fixed number of rows with as many different keys, without pauses.

Not open loop: the source always has rows. Different keys are the hard case, because nothing can be aggregated before the
exchange. Spark's own count takes turns with binshift's. Larger batches spread an epoch's fixed cost over more rows.
"""

from __future__ import annotations

from functools import partial

from archive import save
from counting import binshift_count, spark_count
from measuring import System, Turn, bench, take_turns
from options import WATCH, parsed, parser
from tables import text
from targets import Row, Target, verdicts

from openloop import percentile


def _target(batch: int, bound: float) -> Target:
    def of(row: Row) -> bool:
        return bool(row["system"] == "binshift" and row["batch"] == batch)

    return Target(f"distinct keys a second, batches of {batch:,}", "rows_per_s", bound, at_least=True, of=of)


TARGETS = (_target(100_000, 600_000), _target(400_000, 1_000_000))


def main() -> None:
    """Alternate the systems at each batch size; print rows per second."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=1_000_000, help="keys in the state; all batches have different keys")
    made.add_argument("--batch", type=int, nargs="+", default=[100_000, 400_000], help="rows per batch")
    made.add_argument("--bins", type=int, default=4096)
    made.add_argument("--turns", type=int, default=2, help="turns of each case")
    made.add_argument("--seconds", type=float, default=12.0, help="seconds of a turn")
    made.add_argument("--warm-seconds", type=float, default=25.0, help="unmeasured seconds before the first turn")
    args = parsed(made, {"keys": 4000, "batch": [1000], "seconds": 3.0, "turns": 1, "warm_seconds": 3.0})
    rows: list[dict[str, object]] = []
    with bench(2) as running:
        systems: dict[str, System] = {
            "spark, 2 partitions": partial(spark_count, running),
            "binshift": partial(binshift_count, running, bins=args.bins),
        }
        for batch in args.batch:
            found = take_turns(
                systems,
                partial(running.stream, keys=args.keys, prefill=args.keys, batch=batch),
                turns=args.turns,
                seconds=args.seconds,
                warm=tuple(systems) if batch == args.batch[0] else (),
                warm_seconds=args.warm_seconds,
            )
            rows += [row_of(name, batch, turn) for name, turn in found.items()]
            print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("rows", rows, ["system", "batch"], elsewhere=WATCH.cores())


def row_of(name: str, batch: int, turn: Turn) -> dict[str, object]:
    """Rows per second over the whole measured time, without pauses between triggers."""
    read = sum(each["numInputRows"] for each in turn.progress)
    return {
        "system": name,
        "batch": batch,
        "epochs": len(turn.seconds),
        "p50_s": percentile(turn.seconds, 50),
        "p99_s": percentile(turn.seconds, 99),
        "rows_per_s": read / sum(turn.seconds),
    }


def named(row: Row) -> str:
    """A short name of a row."""
    return f"batches of {row['batch']:,}"


if __name__ == "__main__":
    main()
