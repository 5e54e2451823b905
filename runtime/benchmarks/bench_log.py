"""The cost of durability: the log's share of a calm epoch, and the disk's.

Every epoch writes its changes (*delta*, in each worker's task) and its *record* (in the driver) to the log before it counts.
The log cannot be disabled, so an epoch without it is computed as the epoch minus these two parts. Then the same with the
checkpoint, log and Spark's own files alike, in memory instead of on disk.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from archive import save
from counting import binshift_count
from measuring import Turn, bench, take_turns
from options import WATCH, parsed, parser
from tables import text
from targets import Row, Target, verdicts

from openloop import percentile

DISK, MEMORY = "checkpoint on disk", "checkpoint in memory"
TARGETS = (
    Target("calm epoch with the log over one without", "over_without", 1.1, of=lambda row: row["where"] == DISK),
)


def main() -> None:
    """Alternate disk and memory; print the time of each part."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=100_000, help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--bins", type=int, default=4096)
    made.add_argument("--turns", type=int, default=2, help="turns of each case")
    made.add_argument("--seconds", type=float, default=12.0, help="seconds of a turn")
    made.add_argument("--warm-seconds", type=float, default=40.0, help="unmeasured seconds before the first turn")
    made.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a folder in memory")
    args = parsed(made, {"keys": 1000, "rate": 1000, "seconds": 3.0, "turns": 1, "warm_seconds": 3.0})
    with bench(2) as running, tempfile.TemporaryDirectory(dir=args.memory) as memory:
        found = take_turns(
            {
                DISK: partial(binshift_count, running, bins=args.bins),
                MEMORY: partial(binshift_count, running, bins=args.bins, folder=Path(memory)),
            },
            partial(running.stream, keys=args.keys, prefill=args.keys, rate=args.rate),
            turns=args.turns,
            seconds=args.seconds,
            warm=(DISK,),
            warm_seconds=args.warm_seconds,
        )
    rows = [row_of(where, turn) for where, turn in found.items()]
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("log", rows, ["where"], elsewhere=WATCH.cores())


def row_of(where: str, turn: Turn) -> dict[str, object]:
    """Milliseconds, medians; the share is the median of the epochs' own shares."""
    epochs = list(zip(turn.seconds, turn.parts, strict=True))
    logged = [parts["task_delta"] + parts["record"] for parts in turn.parts]
    return {
        "where": where,
        "epochs": len(epochs),
        "p50_ms": percentile(turn.seconds, 50) * 1000,
        "p99_ms": percentile(turn.seconds, 99) * 1000,
        "delta_ms": percentile([parts["task_delta"] for parts in turn.parts], 50) * 1000,
        "record_ms": percentile([parts["record"] for parts in turn.parts], 50) * 1000,
        "over_without": percentile([total / (total - log) for (total, _), log in zip(epochs, logged, strict=True)], 50),
    }


def named(row: Row) -> str:
    """A short name of a row."""
    return str(row["where"])


if __name__ == "__main__":
    main()
