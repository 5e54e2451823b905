"""`Limit` against a list: the rows of all epochs, cut at the limit."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_histories import BINS, Row, TwoWorkers, splits
from spark_strings import column, texts

from binshift.entries import EMPTY
from binshift.invariants import InvariantViolated
from binshift.model import BinSet, Epoch
from binshift.operators.contract import BIN_COLUMN, KEYLESS_BIN, EpochContext, EpochState
from binshift.operators.limit import Limit
from binshift.store.engine.memory_store import MemoryStore

ROWS = pa.schema([("text", pa.string()), ("n", pa.int64())])

epochs = st.lists(st.tuples(st.lists(st.none() | texts(2), max_size=7), splits, st.integers(1, 4)), max_size=6)


def sent(rows: list[tuple[bytes | None, int]], bin: int = KEYLESS_BIN) -> pa.RecordBatch:
    """The rows as F delivers them, strings in another session's form."""
    texts_sent = column(pa.large_string(), [text for text, _ in rows])
    columns = [pa.array([bin] * len(rows), pa.int32()), texts_sent, pa.array([n for _, n in rows], pa.int64())]
    return pa.RecordBatch.from_arrays(columns, [BIN_COLUMN, *ROWS.names])


@given(epochs, st.integers(0, 20))
def test_the_first_rows_of_all_epochs_pass(history: list[tuple[list[bytes | None], BinSet, int]], limit: int) -> None:
    """In their order, whichever worker has the counter; the state is at most one row."""
    workers = TwoWorkers(Limit(ROWS, limit))
    everything: list[Row] = []
    output: list[Row] = []
    for texts_found, first, cut in history:
        rows = [(text, len(everything) + at) for at, text in enumerate(texts_found)]
        everything += rows
        output += workers.run(sent(rows), first=first, cut=cut)
        assert output == everything[:limit]
        assert len(workers.stored()) == (1 if output else 0)


def test_the_counter_is_written_only_if_rows_pass() -> None:
    """An epoch after the limit changes nothing, and still reads all of its input."""
    store, operator = MemoryStore(), Limit(ROWS, 2)
    with store.read() as reader:
        state = EpochState(reader)
        batches = iter([sent([(b"a", 0)]), sent([]), sent([(b"b", 1), (b"c", 2)]), sent([(b"d", 3)])])
        context = EpochContext(Epoch(0), 0, 0, 0, BinSet(range(BINS)))
        assert sum(out.num_rows for out in operator.run(batches, state, context)) == 2
        assert next(batches, None) is None
    with store.write(1) as transaction:
        transaction.put_many(state.changes[0])
    with store.read() as reader:
        state = EpochState(reader)
        assert list(operator.run(iter([sent([(b"e", 4)])]), state, context)) == []
        assert (state.changes or [EMPTY]) == [EMPTY]


def test_rows_of_another_bin_are_refused() -> None:
    """They would be counted by another worker."""
    with pytest.raises(InvariantViolated, match="bin 0"):
        TwoWorkers(Limit(ROWS, 2)).run(sent([(b"a", 0)], bin=1))


def test_a_negative_limit_is_refused() -> None:
    """Spark refuses it as well."""
    with pytest.raises(InvariantViolated, match="-1"):
        Limit(ROWS, -1)
