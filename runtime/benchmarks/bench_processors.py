"""Keys a second of a user's `StatefulProcessor`, and the cost of timers, through the operator in one process, without Spark.

Every epoch has different keys of a state on disk; the processor reads a value, writes it and returns a row. Two states take turns:
one without timers, and one in which each key has a timer, of which some are due in each epoch. The epoch includes the commit of the store.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from archive import save
from options import WATCH, parsed, parser
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, Row, StructField, StructType
from tables import text
from targets import Target, verdicts

from binshift.entries import merge_last_wins
from binshift.model import BinSet, Epoch
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState, IndexTimes
from binshift.operators.processor.operator import StatefulProcessing, TimeMode
from binshift.spark.testing.processing import Processing
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_store import open_lmdb

BINS = 4096
OWNED = BinSet(range(BINS))
LIMITS = StoreLimits(map_bytes_max=8 << 30)
FILLED_AT_ONCE = 100_000
TARGETS = (
    Target(
        "keys a second, 100,000 in an epoch", "keys_per_s", 40_000, at_least=True, of=lambda r: r["keys"] == 100_000
    ),
    Target("epoch with due timers over one without", "over_none", 1.1),
)


def longs(*names: str) -> StructType:
    """A schema of whole numbers."""
    return StructType([StructField(name, LongType()) for name in names])


ROWS, VALUE = longs("k", "due"), longs("n")


class Counting(StatefulProcessor):
    """Counts the rows of each key; a row with a time registers a timer."""

    def init(self, handle: Any) -> None:
        """See PySpark."""
        self.handle = handle
        self.count = handle.getValueState("count", VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """See PySpark."""
        found = self.count.get()
        n = 0 if found is None else found[0]
        for row in rows:
            n += 1
            if row.due:
                self.handle.registerTimer(row.due)
        self.count.update((n,))
        yield Row(k=key[0], due=n)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """See PySpark."""
        found = self.count.get()
        yield Row(k=key.k, due=found[0])


def operator() -> StatefulProcessing:
    """As the program compiles it."""
    made, _ = Processing(ROWS, ("k",), ROWS, TimeMode.PROCESSING).operator(Counting(), ())
    return made


@dataclass
class State:
    """A processor with its state.

    Attributes:
        operator: the processor.
        store: on disk.
        timers: how many keys have a timer due in each millisecond; 0: none has one.
        times: what the process knows of the timers.
        now: the time of the last epoch.
        seconds: of the last epoch: the operator, the commit.
    """

    operator: StatefulProcessing
    store: KeyValueStore
    timers: int
    times: IndexTimes = field(default_factory=IndexTimes)
    now: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)

    def fill(self, keys: int) -> None:
        """The state of so many keys."""
        for start in range(0, keys, FILLED_AT_ONCE):
            numbers = np.arange(start, min(start + FILLED_AT_ONCE, keys))
            self.epoch(numbers, 1 + numbers // self.timers if self.timers else numbers * 0)

    def epoch(self, keys: np.ndarray, due: np.ndarray) -> int:
        """One epoch; returns the rows of the output."""
        batch, rows = batch_of(keys, due), 0
        started = time.perf_counter()
        with self.store.read() as reader:
            state = EpochState(reader, times=self.times)
            for output in self.operator.run(iter([batch]), state, EpochContext(Epoch(0), self.now, 0, 0, OWNED)):
                rows += output.num_rows
        ran = time.perf_counter()
        changes = merge_last_wins(state.changes)
        with self.store.write(60.0) as transaction:
            transaction.put_many(changes)
        self.times.change(changes, OWNED)
        if state.wake is not None:
            with self.store.read() as reader:
                state.wake.at_ms(reader, OWNED)
        self.seconds = ran - started, time.perf_counter() - ran
        return rows


def batch_of(keys: np.ndarray, due: np.ndarray) -> pa.RecordBatch:
    """Rows as F delivers them."""
    bins = (keys * 2_654_435_761 >> 7) % BINS
    order = np.lexsort((keys, bins))
    columns = [pa.array(bins[order].astype(np.int32)), *(pa.array(each[order]) for each in (keys, keys, due))]
    return pa.RecordBatch.from_arrays(columns, [BIN_COLUMN, "k0", "c0", "c1"])


def main() -> None:
    """Measure epochs of each size."""
    made = parser(__doc__)
    made.add_argument("--state", type=int, default=1_000_000, help="keys in the state")
    made.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000], help="keys in an epoch")
    made.add_argument("--due", type=int, default=1000, help="timers that are due in an epoch")
    made.add_argument("--epochs", type=int, default=7, help="measured epochs of each case; the median counts")
    args = parsed(made, {"state": 2000, "keys": [100], "due": 10, "epochs": 2})
    with tempfile.TemporaryDirectory() as folder:
        states = [State(operator(), open_lmdb(Path(folder) / str(due), LIMITS), due) for due in (0, args.due)]
        for state in states:
            state.fill(args.state)
        rows = [row for keys in args.keys for row in measured(states, keys, args.state, args.epochs)]
    print(text(rows))
    print(text(verdicts(rows, TARGETS, lambda row: f"{row['keys']:,} keys, {row['due']:,} timers due")))
    if not args.quick:
        save("processors", rows, ["keys", "due"], elsewhere=WATCH.cores())


def measured(states: list[State], keys: int, of: int, epochs: int) -> list[dict[str, Any]]:
    """A row for each state, whose epochs take turns; the first of each is not measured."""
    found: list[list[tuple[float, float]]] = [[] for _ in states]
    for number in range(1 + epochs):
        chosen = (np.arange(keys) + number * keys) % of
        for state, seconds in zip(states, found, strict=True):
            state.now += 1
            rows = state.epoch(chosen, chosen * 0)
            assert rows == keys + state.timers, f"{rows} rows of {keys} keys and {state.timers} timers"
            if number:
                seconds.append(state.seconds)
    none = statistics.median(map(sum, found[0]))
    return [
        {
            "keys": keys,
            "due": state.timers,
            "epoch_s": (whole := statistics.median(map(sum, seconds))),
            "operator_s": statistics.median(ran for ran, _ in seconds),
            "commit_s": statistics.median(committed for _, committed in seconds),
            "keys_per_s": keys / whole,
            "over_none": whole / none if state.timers else None,
        }
        for state, seconds in zip(states, found, strict=True)
    ]


if __name__ == "__main__":
    main()
