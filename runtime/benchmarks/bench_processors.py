"""Keys a second of users' Python classes and functions, and the cost of timers, through the operator in one process, without Spark.

Every epoch has different keys of a state on disk; for each of them a value is read and written, and a row is returned: by a
`StatefulProcessor` with rows, by one with frames of pandas, and by a function of ``applyInPandasWithState``. Two states of the first take
turns: one without timers, and one in which each key has a timer, of which some are due in each epoch. Another processor with rows replaces a
list of ten elements of each key. The epoch includes the commit of the store.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from archive import save
from keyed_processors import ROWS, VALUE, Counting, CountingFrames, Listing, counted
from options import WATCH, parsed, parser
from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tables import text
from targets import Row, Target, verdicts

from binshift.entries import merge_last_wins
from binshift.model import BinSet, Epoch
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState, IndexTimes, Operator
from binshift.operators.group_states import GroupStates
from binshift.operators.processor.operator import TimeMode
from binshift.operators.timed_states import Timeout
from binshift.spark.tasks.frame_parts import FrameConf
from binshift.spark.tasks.pandas_calls import PandasFunction
from binshift.spark.testing.processing import Processing
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_store import open_lmdb

BINS = 4096
OWNED = BinSet(range(BINS))
LIMITS = StoreLimits(map_bytes_max=8 << 30)
FILLED_AT_ONCE = 100_000
ROWS_MODE, FRAMES_MODE, FUNCTION = "processor of rows", "processor of frames", "applyInPandasWithState"
LISTS_MODE = "processor of lists"


def is_case(case: str, keys: int) -> Callable[[Row], bool]:
    """Whether a row is of this case without timers, with so many keys in an epoch."""
    return lambda row: (row["case"], row["keys"], row["due"]) == (case, keys, 0)


TARGETS = (
    Target("keys a second", "keys_per_s", 40_000, at_least=True, of=is_case(ROWS_MODE, 100_000)),
    Target("keys a second", "keys_per_s", 5_000, at_least=True, of=is_case(FRAMES_MODE, 10_000)),
    Target("keys a second", "keys_per_s", 6_000, at_least=True, of=is_case(FUNCTION, 10_000)),
    Target("epoch with due timers over one without", "over_none", 1.1, of=lambda row: row["keys"] == 100_000),
)


def processor(of: StatefulProcessor, *, frames: bool = False) -> Operator:
    """A processor, as a program compiles it."""
    return Processing(ROWS, ("k",), ROWS, TimeMode.PROCESSING, frames).operator(of, ())[0]


def others() -> list[tuple[str, Operator]]:
    """What is measured without timers only."""
    frames = processor(CountingFrames(), frames=True)
    return [(LISTS_MODE, processor(Listing())), (FRAMES_MODE, frames), (FUNCTION, function())]


def function() -> Operator:
    """A function of ``applyInPandasWithState``, as a program compiles it."""
    rows, state = to_arrow_schema(ROWS, timezone="UTC"), to_arrow_schema(VALUE, timezone="UTC")
    command: bytes = cast(Any, cloudpickle).dumps((counted, None))
    none = Timeout.NONE
    called = PandasFunction(command, VALUE, ROWS, rows, none.value, watermark=False, conf=FrameConf("UTC"))
    return GroupStates(called, pa.schema([rows.field("k")]), rows, state, rows, none)


@dataclass
class State:
    """A processor or a function with its state.

    Attributes:
        operator: calls it.
        store: on disk.
        timers: how many keys have a timer due in each millisecond; 0: none has one.
        times: what the process knows of the timers.
        now: the time of the last epoch.
        seconds: of the last epoch: the operator, the commit.
    """

    operator: Operator
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
    made.add_argument(
        "--pandas", type=int, default=10_000, help="keys in the state, and in an epoch, of lists and with pandas"
    )
    made.add_argument("--epochs", type=int, default=7, help="measured epochs of each case; the median counts")
    args = parsed(made, {"state": 2000, "keys": [100], "due": 10, "pandas": 100, "epochs": 2})
    with tempfile.TemporaryDirectory() as folder:

        def state(operator: Operator, due: int, keys: int) -> State:
            path = Path(tempfile.mkdtemp(dir=folder))
            found = State(operator, open_lmdb(path, LIMITS), due)
            found.fill(keys)
            return found

        timed = [state(processor(Counting()), due, args.state) for due in (0, args.due)]
        rows = [row for keys in args.keys for row in measured(ROWS_MODE, timed, keys, args.state, args.epochs)]
        for case, operator in others():
            rows += measured(case, [state(operator, 0, args.pandas)], args.pandas, args.pandas, args.epochs)
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("processors", rows, ["case", "keys", "due"], elsewhere=WATCH.cores())


def measured(case: str, states: list[State], keys: int, of: int, epochs: int) -> list[Row]:
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
            "case": case,
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


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['case']}, {row['keys']:,} keys, {row['due']:,} timers due"


if __name__ == "__main__":
    main()
