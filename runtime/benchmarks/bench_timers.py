"""The effect on records while state with a timer for each key moves: from 2 warm workers to 4 and back, open loop.

A `StatefulProcessor` counts the rows of each key and registers a timer in event time for it. The timers of the first rows, one for
each key, are due in an hour; those of later rows are due after two seconds, so that timers fire in every epoch, and while bins move.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archive import save
from measuring import Bench, bench
from mover import Case, out_and_back, warm
from options import WATCH, parsed, parser
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tables import text
from targets import Row, Target, verdicts

import binshift

LATER_MS, SOON_MS = 3_600_000, 2_000
TARGETS = (
    Target("spike: worst while moving over the larger calm p99", "spike", 1.25),
    Target("epochs skipped while moving", "skipped", 0),
)


class Reminding(StatefulProcessor):
    """Counts the rows of each key, and returns the count when a timer of the key is due."""

    def init(self, handle: Any) -> None:
        """See PySpark."""
        self.handle = handle
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[SparkRow], timerValues: Any) -> Iterator[SparkRow]:
        """See PySpark."""
        found = self.count.get()
        n = 0 if found is None else found[0]
        for row in rows:
            n += 1
            self.handle.registerTimer(row.remind_ms)
        self.count.update((n,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:
        """See PySpark."""
        found = self.count.get()
        yield SparkRow(k=key[0], n=found[0])


def begin(running: Bench, case: Case) -> Any:
    """The processor over the open-loop source, on the first two of the workers."""
    stream = running.stream(keys=case.keys, prefill=case.keys, rate=case.rate)
    after = F.expr(f"CASE WHEN value < {case.keys} THEN {LATER_MS} ELSE {SOON_MS} END")
    timed = stream.select("k", F.timestamp_millis("due_ms").alias("ts"), (F.col("due_ms") + after).alias("remind_ms"))
    found = timed.withWatermark("ts", "1 second").groupBy("k")
    frame = found.transformWithState(Reminding(), "k long, n long", "append", "eventtime")
    writer = binshift.writeStream(frame, workers=2, bins=case.bins, batch_size=case.batch_size).format("noop")
    return writer.outputMode("append").option("checkpointLocation", running.checkpoint()).start()


def main() -> None:
    """Move the state out and back."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=1_000_000, help="keys in the state, each with a timer")
    made.add_argument("--rate", type=int, default=5_000, help="rows due per second")
    made.add_argument("--bins", type=int, default=1024)
    made.add_argument("--warm-seconds", type=float, default=60.0, help="unmeasured seconds before the state is filled")
    made.add_argument("--settle-epochs", type=int, default=40, help="unmeasured epochs after the filling")
    made.add_argument("--calm-seconds", type=float, default=15.0, help="measured seconds before each move")
    quick = {"keys": 1000, "bins": 16, "warm_seconds": 2.0, "settle_epochs": 4, "calm_seconds": 2.0, "rate": 500}
    args = parsed(made, quick)
    case = Case(args.keys, args.bins, rate=args.rate)
    with bench(4) as running:
        warm(running, case, args.warm_seconds, begin)
        rows = out_and_back(running, case, args.settle_epochs, args.calm_seconds, begin)
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("timers", rows, ["keys", "bins", "to"], elsewhere=WATCH.cores())


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['keys']:,} keys with a timer each, {'out' if row['to'] == 4 else 'back'}"


if __name__ == "__main__":
    main()
