"""Functions with a state and a timeout for each key, over random histories, compared with dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift import entries
from binshift.model import Bin, BinSet, Epoch
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState, IndexTimes, Operator, Wake
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.group_states import Called, Calls, Groups, GroupStates
from binshift.operators.timed_states import Changed, Stored, Timeout
from binshift.store.engine.memory_store import MemoryStore

BINS = 4
KEYS = pa.schema([("key", pa.int64())])
ROWS = pa.schema([("key", pa.int64()), ("add", pa.int64()), ("wait", pa.int64())])
STATE = pa.schema([("total", pa.int64())])
OUTPUT = pa.schema([("key", pa.int64()), ("total", pa.int64()), ("timed_out", pa.bool_())])
NOTHING, REMOVE = -1, -2
"""Orders in the column ``wait`` of a key's last row: change nothing; remove the state."""

Row = tuple[int, int, int]
Emitted = tuple[int, int | None, bool]


@dataclass(frozen=True)
class Summing:
    """Adds up a key's rows. The last row orders a timeout, none (0), `NOTHING` or `REMOVE`; a timeout removes every odd total."""

    def begin(self, context: EpochContext) -> Calls:
        """What calls the function."""
        return lambda groups: self._called(groups, context)

    def _called(self, groups: Groups, context: EpochContext) -> Called:
        rows, states = groups.rows.to_pylist(), groups.states
        totals, timeouts, changed, output = [], [], [], []
        for at, key in enumerate(groups.keys.column(0).to_pylist()):
            mine = rows[groups.starts[at] : groups.starts[at + 1]]
            before = states.values.column(0)[at].as_py()
            assert states.exists[at].as_py() == (before is not None)
            total, timeout, change = stepped(
                before, [(r["key"], r["add"], r["wait"]) for r in mine], context.batch_time_ms
            )
            totals.append(total)
            timeouts.append(timeout)
            changed.append(change)
            output.append({"key": key, "total": total, "timed_out": groups.timed_out})
        values = pa.RecordBatch.from_arrays([pa.array(totals, pa.int64())], schema=STATE)
        after = Stored(values, values.column(0).is_valid(), pa.array(timeouts, pa.int64()))
        batch = pa.RecordBatch.from_pylist(output, schema=OUTPUT)
        return Called([batch], Changed(after, np.array(changed, dtype=np.bool_)))


def stepped(total: int | None, rows: Sequence[Row], now: int) -> tuple[int | None, int | None, bool]:
    """A call of the function: the new total, the new timeout, and whether anything changes."""
    if not rows:
        return (None, None, True) if total is not None and total % 2 else (total, None, False)
    order = rows[-1][2]
    if order == NOTHING:
        return total, None, False
    if order == REMOVE:
        return None, None, True
    return (total or 0) + sum(add for _, add, _ in rows), now + order if order else None, True


@dataclass
class Fold:
    """The same with dictionaries."""

    totals: dict[int, int] = field(default_factory=dict)
    timeouts: dict[int, int] = field(default_factory=dict)

    def epoch(self, rows: Sequence[Row], now: int) -> list[Emitted]:
        """What an epoch emits."""
        emitted = [
            self._call(key, [row for row in rows if row[0] == key], now) for key in dict.fromkeys(r[0] for r in rows)
        ]
        late = [key for key, time in self.timeouts.items() if time < now]
        return emitted + [self._call(key, [], now) for key in late]

    def _call(self, key: int, rows: Sequence[Row], now: int) -> Emitted:
        total, timeout, changed = stepped(self.totals.get(key), rows, now)
        if changed:
            self.totals.pop(key, None)
            self.timeouts.pop(key, None)
            if total is not None:
                self.totals[key] = total
            if timeout is not None:
                self.timeouts[key] = timeout
        return key, total, not rows


class Epochs:
    """Runs epochs of an operator on one worker, with what a process keeps of the expiry index between them."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.store, self.number = operator, MemoryStore(), 0
        self.times = IndexTimes()
        self.owned = BinSet(range(BINS))

    def run(self, batch: pa.RecordBatch, context: EpochContext) -> tuple[list[Emitted], EpochState]:
        """One epoch: what it emits, and its state afterwards."""
        with self.store.read() as reader:
            state = EpochState(reader, times=self.times)
            out = [row for each in self.operator.run(iter([batch]), state, context) for row in each.to_pylist()]
        changes = entries.merge_last_wins(state.changes)
        with self.store.write(1) as transaction:
            transaction.put_many(changes)
        self.times.change(changes, self.owned)
        return [(row["key"], row["total"], row["timed_out"]) for row in out], state

    def first(self) -> int | None:
        """The first timeout."""
        with self.store.read() as reader:
            return self.times.expiries.earliest(reader, self.owned)

    def rows_stored(self) -> int:
        """Rows in the store."""
        with self.store.read() as transaction:
            return transaction.size().rows


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as F delivers them: by bin and key."""
    ordered = sorted(rows, key=lambda row: (row[0] % BINS, row[0]))
    columns = [pa.array([row[at] for row in ordered], pa.int64()) for at in range(3)]
    bins = pa.array([row[0] % BINS for row in ordered], pa.int32())
    return pa.RecordBatch.from_arrays([bins, *columns], [BIN_COLUMN, *ROWS.names])


def at(time_ms: int, watermark_ms: int = 0, before_ms: int = 0) -> EpochContext:
    """An epoch at a time."""
    return EpochContext(Epoch(0), time_ms, watermark_ms, before_ms, BinSet(range(BINS)))


OPERATOR = GroupStates(Summing(), KEYS, ROWS, STATE, OUTPUT, Timeout.PROCESSING_TIME, group_bytes_max=1)
ORDERS = st.sampled_from([NOTHING, REMOVE, 0, 1, 5, 50])
EPOCHS = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), ORDERS), max_size=8), st.integers(1, 20)),
    max_size=12,
)


@given(history=EPOCHS)
def test_states_and_timeouts_equal_those_of_dictionaries(history: list[tuple[list[Row], int]]) -> None:
    """Keys with rows come before the keys that time out; the first timeout is known after each epoch; nothing is left behind."""
    epochs, fold, now = Epochs(OPERATOR), Fold(), 0
    for rows, passed in history:
        now += passed
        emitted, state = epochs.run(batch_of(rows), at(now))
        assert sorted(emitted, key=repr) == sorted(fold.epoch(rows, now), key=repr)
        with_rows = len({row[0] for row in rows})
        assert not any(timed_out for _, _, timed_out in emitted[:with_rows])
        assert state.wake == Wake(state.times.expiries, 1)
        assert epochs.first() == min(fold.timeouts.values(), default=None)
        assert epochs.rows_stored() == len({*fold.totals, *fold.timeouts}) + len(fold.timeouts)


def test_a_timeout_has_not_passed_at_its_own_time() -> None:
    """A key times out after its timeout, as in Spark, and once if the call removes its state."""
    epochs = Epochs(OPERATOR)
    epochs.run(batch_of([(3, 1, 5)]), at(10))
    assert epochs.run(batch_of([]), at(15))[0] == []
    assert epochs.run(batch_of([]), at(16))[0] == [(3, None, True)]
    assert epochs.run(batch_of([]), at(17))[0] == []


def test_a_call_that_sets_nothing_leaves_the_timeout_in_force() -> None:
    """The key times out in the same epoch as its rows if its old timeout has passed, as in Spark."""
    epochs = Epochs(OPERATOR)
    epochs.run(batch_of([(3, 2, 5)]), at(10))
    assert epochs.run(batch_of([(3, 1, NOTHING)]), at(20))[0] == [(3, 2, False), (3, 2, True)]
    assert epochs.run(batch_of([]), at(21))[0] == [(3, 2, True)]
    assert epochs.run(batch_of([(3, 1, 0)]), at(22))[0] == [(3, 3, False)]
    assert epochs.run(batch_of([]), at(23))[0] == []


def test_event_time_follows_the_watermark() -> None:
    """Timeouts end by the watermark, rows at or before the previous watermark are late, and no clock wakes the stream."""
    operator = replace(OPERATOR, timeout=Timeout.EVENT_TIME, late=True)
    epochs = Epochs(operator)

    def timed(rows: Sequence[Row], times: Sequence[int]) -> pa.RecordBatch:
        batch = batch_of(rows)
        return batch.add_column(1, EXPIRY_COLUMN, pa.array(times, pa.int64()))

    _, state = epochs.run(timed([(3, 1, 5)], [7]), at(10))
    assert state.wake is None
    emitted, state = epochs.run(timed([(3, 1, 5), (3, 4, 5)], [2, 3]), at(1000, watermark_ms=15, before_ms=2))
    assert (emitted, state.rows_late) == ([(3, 5, False)], 1)
    assert epochs.run(timed([], []), at(2000, watermark_ms=1005, before_ms=15))[0] == []
    assert epochs.run(timed([], []), at(2000, watermark_ms=1006, before_ms=1005))[0] == [(3, None, True)]


@pytest.mark.parametrize("timeout", list(Timeout))
def test_nothing_is_read_of_bins_without_a_due_timeout(timeout: Timeout) -> None:
    """Bins whose first timeout is not due are not scanned."""
    epochs = Epochs(replace(OPERATOR, timeout=timeout))
    epochs.run(batch_of([(0, 1, 5), (1, 1, 50), (2, 1, 0)]), at(10))
    scanned: list[int] = []
    with epochs.store.read() as reader:
        scan_bins = reader.scan_bins

        def watched(bins: Sequence[Bin], start: bytes = b"", stop: bytes | None = None) -> Iterator[entries.Entries]:
            scanned.extend(bins)
            return scan_bins(bins, start, stop)

        reader.scan_bins = watched  # type: ignore[method-assign]
        state = EpochState(reader, times=epochs.times)
        list(epochs.operator.run(iter([]), state, at(20, watermark_ms=20)))
    assert scanned == ([] if timeout is Timeout.NONE else [0])
