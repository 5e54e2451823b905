"""`Deduplicate` against a dictionary, and the rules of Spark that a history does not show by itself."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_folds import DeduplicateFold, Seen
from operator_histories import (
    KEYS,
    Key,
    TwoWorkers,
    bin_column,
    canonical,
    key_columns,
    keys,
    sorted_rows,
    splits,
    store_order,
)

from binshift.invariants import InvariantViolated
from binshift.model import BinSet
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.deduplicate import DROPPED, Deduplicate, Retention
from binshift.operators.expiry import EXPIRY_COLUMN, expiry_bytes

VALUE = pa.field("value", pa.int64())
TIME = pa.field("time", pa.int64())
ROWS = pa.schema([*KEYS, TIME, VALUE])
TIMED_KEYS = pa.schema([*KEYS, TIME])

DELAY = 30
OPERATORS = {
    "no event time": Deduplicate(KEYS, ROWS),
    "event time not a key": Deduplicate(KEYS, ROWS, event_time=True),
    "event time a key": Deduplicate(TIMED_KEYS, ROWS, event_time=True, retention=Retention.EVENT_TIME),
    "within watermark": Deduplicate(KEYS, ROWS, True, Retention.WATERMARK, DELAY),
}
"""Each form of the operator."""

epochs = st.lists(
    st.tuples(
        st.lists(st.tuples(keys, st.none() | st.integers(-20, 150)), max_size=15),  # rows: key and event time
        st.integers(0, 40),  # how far the watermark moves
        splits,
        st.integers(1, 4),  # rows in a batch
    ),
    max_size=6,
)


def seen(operator: Deduplicate, rows: Sequence[tuple[Key, int | None]], first_value: int = 0) -> list[Seen]:
    """An epoch's rows in source order, numbered."""
    timed = operator.keys == TIMED_KEYS
    return [
        Seen((*key, time) if timed else key, time, (*key, time, first_value + at))
        for at, (key, time) in enumerate(rows)
    ]


def sent(rows: list[Seen]) -> pa.RecordBatch:
    """The rows as F delivers them: by bin, key and source order."""
    ordered = sorted(rows, key=lambda each: (store_order(each.key[:2]), canonical(each.key), each.row[-1]))
    raw = [each.row[:2] for each in ordered]
    times = pa.array([each.time for each in ordered], pa.int64())
    values = pa.array([each.row[-1] for each in ordered], pa.int64())
    columns = [bin_column(raw), *key_columns(raw), times, values, times]
    return pa.RecordBatch.from_arrays(columns, [BIN_COLUMN, *ROWS.names, EXPIRY_COLUMN])


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@given(history=epochs)
def test_the_first_row_of_each_key_passes(
    operator: Deduplicate, history: list[tuple[list[tuple[Key, int | None]], int, BinSet, int]]
) -> None:
    """Epoch by epoch, the output, the numbers of late and of dropped rows and the number of states equal those of a dictionary."""
    workers, fold, watermark = TwoWorkers(operator), DeduplicateFold(operator), 0
    for step, (rows, moved, first, cut) in enumerate(history):
        watermark += moved
        epoch = seen(operator, rows, 100 * step)
        output = workers.run(sent(epoch), watermark, first, cut)
        assert sorted_rows(output) == sorted_rows(fold.epoch(epoch, watermark))
        assert workers.late == fold.late
        assert workers.counts[DROPPED] == len(rows) - fold.late - len(output)
        assert len(workers.stored()) == sum(2 - (at is None) for at in fold.expiries.values())


def test_output_keeps_the_values_and_the_order_of_the_rows() -> None:
    """A key is stored in its canonical form, and emitted as it came; rows come by bin and key."""
    operator = OPERATORS["no event time"]
    rows = seen(operator, [((b"\xff", -0.0), None), ((b"\xff", 0.0), None), ((b"b", 0.0), None), ((None, None), None)])
    output = TwoWorkers(operator).run(sent(rows))
    assert [repr(row) for row in output] == [
        repr(each.row) for each in sorted(rows, key=lambda each: store_order(each.key)) if each.row[-1] != 1
    ]


def test_a_state_that_ends_holds_back_the_rows_of_its_last_epoch() -> None:
    """Spark evicts after the input of a batch: the key is new again in the epoch after."""
    operator = OPERATORS["within watermark"]
    workers, key = TwoWorkers(operator), (b"a", 1.5)
    assert len(workers.run(sent(seen(operator, [(key, 10)])))) == 1
    assert workers.run(sent(seen(operator, [(key, 200)])), watermark=40) == []
    assert workers.stored() == []
    assert len(workers.run(sent(seen(operator, [(key, 201), (key, 202)])), watermark=40)) == 1


def test_within_the_watermark_only_the_first_row_sets_the_expiry() -> None:
    """A later duplicate does not extend the state."""
    operator = OPERATORS["within watermark"]
    workers, key = TwoWorkers(operator), (b"a", 1.5)
    workers.run(sent(seen(operator, [(key, 10), (key, 90)])))
    workers.run(sent(seen(operator, [(key, 95)])), watermark=39)
    assert len(workers.stored()) == 2
    assert any(row[1].startswith(b"\x01" + expiry_bytes(10 + DELAY)) for row in workers.stored())
    workers.run(sent([]), watermark=40)
    assert workers.stored() == []


def test_without_a_time_among_the_keys_late_rows_are_dropped_and_state_stays() -> None:
    """A row that is late does not pass even if its key is new."""
    operator = OPERATORS["event time not a key"]
    workers = TwoWorkers(operator)
    workers.run(sent(seen(operator, [((b"a", None), 10)])), watermark=50)
    assert workers.run(sent(seen(operator, [((b"b", None), 50), ((b"a", None), 60)])), watermark=50) == []
    assert (workers.late, len(workers.stored())) == (1, 1)


def test_a_key_without_columns_is_one_key() -> None:
    """Only the first row of all passes."""
    operator = Deduplicate(pa.schema([]), ROWS)
    rows = sent(seen(operator, [((b"a", 1.0), 1)] * 5))
    workers = TwoWorkers(operator)
    assert [row[-1] for row in workers.run(rows)] == [0]
    assert workers.run(rows) == []


def test_rows_that_are_not_sorted_are_refused() -> None:
    """Otherwise, a duplicate would pass."""
    operator = OPERATORS["no event time"]
    found = [((b"%d" % at, 0.0), None) for at in range(20)]
    rows = sent(seen(operator, found))
    with pytest.raises(InvariantViolated, match="sorted"):
        TwoWorkers(operator).run(rows.take(pa.array(range(19, -1, -1))))


@pytest.mark.parametrize(
    ("retention", "event_time", "delay_ms"),
    [(Retention.WATERMARK, False, 1), (Retention.EVENT_TIME, False, 0), (Retention.EVENT_TIME, True, 1)],
)
def test_a_retention_needs_what_it_is_computed_from(retention: Retention, event_time: bool, delay_ms: int) -> None:
    """An operator that could never end a state, or whose delay has no effect, is refused."""
    with pytest.raises(InvariantViolated):
        Deduplicate(KEYS, ROWS, event_time, retention, delay_ms)
