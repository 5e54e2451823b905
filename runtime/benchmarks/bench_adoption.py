"""How fast a query begins with the state of one that Spark has run: groups of a stopped count, adopted by two workers.

The measured seconds are those of the whole `start()`: compile the program, read Spark's state by its own reader, write it to the log,
and begin the stream. Spark's checkpoint is only read, so each turn adopts the same one.
"""

from __future__ import annotations

import statistics
import time

from archive import save
from counting import binshift_count, spark_count
from measuring import await_batch, bench
from options import WATCH, parsed, parser
from rich.progress import track
from tables import text
from targets import Row, Target, verdicts

TARGETS = (
    Target("groups adopted a second", "rows_per_s", 200_000, at_least=True, of=lambda row: row["keys"] >= 1_000_000),
)
BATCHES = 2
"""That Spark commits before it is stopped; the first one has every group."""


def main() -> None:
    """Fill, stop, adopt; print the table and the target."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, nargs="+", default=[100_000, 1_000_000], help="groups in the state")
    made.add_argument("--bins", type=int, default=4096)
    made.add_argument("--turns", type=int, default=4, help="adoptions of each state; the first is not measured")
    args = parsed(made, {"keys": [1000], "bins": 64, "turns": 2})
    rows: list[Row] = []
    with bench(2) as running:
        for keys in args.keys:
            stream = running.stream(keys=keys, prefill=keys, rate=1000)
            checkpoint = running.checkpoint()
            theirs = spark_count(running, stream, checkpoint=checkpoint)
            await_batch(theirs, BATCHES - 1)
            theirs.stop()
            seconds = []
            for _ in track(range(args.turns), description=f"{keys:,} groups"):
                began = time.perf_counter()
                query = binshift_count(running, stream, args.bins, adopt=checkpoint)
                seconds.append(time.perf_counter() - began)
                await_batch(query, BATCHES)
                stored = query.lastProgress["stateOperators"][0]["numRowsTotal"]
                assert stored == keys, f"{stored} of {keys} groups were adopted"
                query.stop()
            took = statistics.median(seconds[1:])
            row = {"keys": keys, "start_s": took, "first_start_s": seconds[0], "rows_per_s": keys / took}
            rows.append(row)
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("adoption", rows, ["keys"], elsewhere=WATCH.cores())


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['keys']:,} groups"


if __name__ == "__main__":
    main()
