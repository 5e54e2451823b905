"""`Sessions` against lists of sessions, and the rules of Spark that a history does not show by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_folds import Session, SessionsFold
from operator_histories import (
    KEYS,
    Key,
    TwoWorkers,
    bin_column,
    key_columns,
    keys,
    sorted_rows,
    splits,
    store_order,
)
from spark_strings import NOT_UTF8, column

from binshift.invariants import InvariantViolated
from binshift.model import BinSet
from binshift.operators.aggregate import OutputMode
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.merge import Merge, MergeSpec
from binshift.operators.session_codec import SESSION_END_COLUMN, SESSION_START_COLUMN
from binshift.operators.session_rows import fold
from binshift.operators.sessions import Sessions

BUFFERS = pa.schema([("n", pa.int64()), ("texts", pa.list_(pa.string()))])
MERGES = (MergeSpec(Merge.COUNT, ("n",)), MergeSpec(Merge.CONCAT, ("texts",)))
OPERATORS = {
    "append": Sessions(KEYS, BUFFERS, MERGES, OutputMode.APPEND),
    "append, a bin at a time": Sessions(KEYS, BUFFERS, MERGES, OutputMode.APPEND, group_bytes_max=1),
    "complete": Sessions(KEYS, BUFFERS, MERGES, OutputMode.COMPLETE),
    "complete without a watermark": Sessions(KEYS, BUFFERS, MERGES, OutputMode.COMPLETE, expires=False),
}
"""Each form of the operator."""

Part = tuple[Key, Session]

few_keys: st.SearchStrategy[Key] = (
    st.sampled_from([(b"a", -0.0), (b"a", 0.0), (b"\xff", float("nan")), (None, None)]) | keys
)


@st.composite
def parts(draw: st.DrawFn) -> Part:
    """A row with its session; times are not whole milliseconds, and gaps differ."""
    start = 500 * draw(st.integers(-60, 300))
    end = start + draw(st.sampled_from([1, 500, 10_000, 20_000, 20_500]))
    texts = tuple(draw(st.lists(st.sampled_from([b"", b"x", *NOT_UTF8]), max_size=2)))
    return draw(few_keys), Session(start, end, draw(st.integers(0, 3)), texts)


epochs = st.lists(st.tuples(st.lists(parts(), max_size=12), st.integers(0, 40), splits, st.integers(1, 4)), max_size=6)
"""Rows, how far the watermark moves in milliseconds, the first worker's bins, and the rows in a batch."""


def sent(rows: list[Part]) -> pa.RecordBatch:
    """The rows as F delivers them: by bin, key and session."""
    ordered = sorted(rows, key=lambda row: (store_order(row[0]), row[1].start, row[1].end))
    found = [key for key, _ in ordered]
    times = [pa.array([getattr(row[1], name) for row in ordered], pa.int64()) for name in ("start", "end", "count")]
    texts = column(pa.list_(pa.large_string()), [list(row[1].texts) for row in ordered])
    columns = [bin_column(found), *key_columns(found), *times, texts]
    return pa.RecordBatch.from_arrays(
        columns, [BIN_COLUMN, *KEYS.names, SESSION_START_COLUMN, SESSION_END_COLUMN, *BUFFERS.names]
    )


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@given(history=epochs)
def test_sessions_are_merged_and_end(operator: Sessions, history: list[tuple[list[Part], int, BinSet, int]]) -> None:
    """Epoch by epoch, output, late rows and the number of stored rows equal those of lists of sessions."""
    complete = operator.mode is OutputMode.COMPLETE
    workers, wanted, watermark = TwoWorkers(operator), SessionsFold(complete, operator.expires), 0
    for rows, moved, first, cut in history:
        watermark += moved
        output = workers.run(sent(rows), watermark, first, cut)
        assert sorted_rows(output) == sorted_rows(wanted.epoch(rows, watermark))
        assert workers.late == wanted.late
        sessions = sum(len(some) for _, some in wanted.state.values())
        assert len(workers.stored()) == sessions * (1 if complete else 2) + len(wanted.state)


A: Key = (b"a", 1.0)


def session(start_ms: int, end_ms: int, text: bytes = b"x") -> Part:
    """A row with the key `A`."""
    return A, Session(1000 * start_ms, 1000 * end_ms, 1, (text,))


def test_sessions_that_touch_are_one() -> None:
    """The end of one is the start of the other; a microsecond between them keeps them apart."""
    workers = TwoWorkers(OPERATORS["append"])
    workers.run(sent([session(10, 20), session(20, 30), (A, Session(30_001, 40_000, 1, ()))]))
    assert [row[2:5] for row in workers.run(sent([]), 40)] == [(10_000, 30_000, 2), (30_001, 40_000, 1)]


def test_a_row_joins_stored_sessions_in_the_order_of_their_starts() -> None:
    """A row between two sessions makes them one, whose state replaces both."""
    workers = TwoWorkers(OPERATORS["append"])
    workers.run(sent([session(40, 50, b"c"), session(10, 20, b"a")]))
    assert len(workers.stored()) == 5
    workers.run(sent([session(15, 45, b"b")]))
    assert len(workers.stored()) == 3
    assert workers.run(sent([]), 50) == [(*A, 10_000, 50_000, 3, [b"a", b"b", b"c"])]
    assert workers.stored() == []


def test_a_late_row_does_not_extend_a_session() -> None:
    """It is dropped by its own end, although it overlaps a stored session and a row that is on time."""
    workers = TwoWorkers(OPERATORS["append"])
    workers.run(sent([session(15, 40)]), 20)
    workers.run(sent([session(5, 20), session(19, 21)]), 20)
    assert workers.late == 1
    assert [row[2:5] for row in workers.run(sent([]), 40)] == [(15_000, 40_000, 2)]


def test_a_session_that_ends_counts_the_rows_of_that_epoch() -> None:
    """A row that extends it beyond the watermark keeps it open."""
    workers = TwoWorkers(OPERATORS["append"])
    workers.run(sent([session(10, 20), session(50, 60)]))
    assert workers.run(sent([session(15, 25)]), 20) == []
    assert [row[2:5] for row in workers.run(sent([session(22, 30), session(70, 80)]), 60)] == [
        (10_000, 30_000, 3),
        (50_000, 60_000, 1),
    ]
    assert len(workers.stored()) == 3


def test_an_end_within_a_millisecond_is_reached_by_the_next_one() -> None:
    """Spark compares in microseconds."""
    workers = TwoWorkers(OPERATORS["append"])
    workers.run(sent([(A, Session(0, 10_001, 1, ()))]))
    assert workers.run(sent([]), 10) == []
    assert len(workers.run(sent([]), 11)) == 1


def test_complete_mode_emits_in_the_order_of_the_store() -> None:
    """By bin, key and start, in every epoch."""
    found = [(((b"%d" % at), 0.0), Session(start, start + 1, 1, ())) for at in range(9) for start in (-5, 7, 0, 3)]
    workers = TwoWorkers(OPERATORS["complete without a watermark"])
    workers.run(sent(found))
    output = workers.run(sent([]), 100)
    assert len(output) == len(found)
    assert output == sorted(output, key=lambda row: (store_order(row[:2]), row[2]))


@given(st.lists(st.integers(0, 6), max_size=40))
def test_fold_merges_each_group_in_order(groups: list[int]) -> None:
    """The lists of a group are concatenated in the order of its rows, for groups of any size."""
    group = np.array(sorted(groups), dtype=np.int64)
    texts = [[str(at)] for at in range(len(group))]
    buffers = pa.RecordBatch.from_arrays(
        [pa.array([1] * len(group), pa.int64()), pa.array(texts, pa.list_(pa.string()))], schema=BUFFERS
    )
    found = fold(MERGES, buffers, group).column("texts").to_pylist()
    assert found == [[str(at) for at in np.flatnonzero(group == each)] for each in np.unique(group)]


def test_rows_that_are_not_sorted_are_refused() -> None:
    """Otherwise, a key could be read after it has changed."""
    rows = sent([((b"%d" % at, 0.0), Session(0, 1, 1, ())) for at in range(20)])
    with pytest.raises(InvariantViolated, match="sorted"):
        TwoWorkers(OPERATORS["append, a bin at a time"]).run(rows.take(pa.array(range(19, -1, -1))))


@pytest.mark.parametrize(("mode", "expires"), [(OutputMode.UPDATE, True), (OutputMode.APPEND, False)])
def test_a_mode_that_spark_refuses_is_refused(mode: OutputMode, expires: bool) -> None:
    """Update mode, and append mode without a watermark."""
    with pytest.raises(InvariantViolated, match="mode"):
        Sessions(KEYS, BUFFERS, MERGES, mode, expires)
