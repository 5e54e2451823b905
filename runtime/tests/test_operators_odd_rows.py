"""The state operators on all rows that Spark's types allow: strings of any bytes, types in other forms, columns of any name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from spark_strings import NOT_UTF8, column, values
from test_operators import Runs

from binshift.errors import UserFunctionFailed
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.merge import Merge, MergeSpec
from binshift.operators.vectorised import VectorisedState

KEY = pa.struct([("k", pa.string()), ("c", pa.string())])
KEY_AS_SENT = pa.struct([pa.field("k", pa.large_string()), pa.field("c", pa.string(), nullable=False)])
"""The key's type in a batch: in another session's form, with a field that is a constant of the user's."""
BUFFERS = pa.schema([("p0", pa.string()), ("p1", pa.list_(pa.string()))])
MERGES = (MergeSpec(Merge.MAX, ("p0",)), MergeSpec(Merge.UNION, ("p1",)))


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Rows with strings as bytes."""
    return list(zip(*map(values, batch.columns), strict=True))


def sent(rows: list[tuple[dict[str, bytes | None] | None, bytes]]) -> pa.RecordBatch:
    """(key, text) as the JVM delivers them, all in one bin, with expiry 100."""
    keys, found = zip(*rows, strict=True)
    few = len(rows)
    columns = [
        pa.array([0] * few, pa.int32()),
        column(KEY_AS_SENT, keys),
        column(pa.large_string(), found),
        column(pa.list_(pa.large_string()), [[text] for text in found]),
        pa.array([100] * few),
    ]
    return pa.RecordBatch.from_arrays(columns, [BIN_COLUMN, "k0", "p0", "p1", EXPIRY_COLUMN])


KEYS: list[dict[str, bytes | None] | None] = [{"k": text, "c": b"x"} for text in (*NOT_UTF8, None)] + [None]


@pytest.mark.parametrize("mode", [OutputMode.UPDATE, OutputMode.APPEND])
def test_groups_live_and_end_whatever_their_bytes_and_types(mode: OutputMode) -> None:
    """Keys and values are restored from the state unchanged, in update and in append mode."""
    runs = Runs(Aggregate(pa.schema([("k0", KEY)]), BUFFERS, MERGES, mode, expires=True), rows_of)
    first = runs.run([sent([(key, text) for key, text in zip(KEYS, (*NOT_UTF8, b"", b"z"), strict=True)])])
    second = runs.run([sent([(key, b"\xfe") for key in KEYS])])
    ended = runs.run([], watermark=100)
    most = [max(text, b"\xfe") for text in (*NOT_UTF8, b"", b"z")]
    wanted = [(key, best, [text, b"\xfe"]) for key, best, text in zip(KEYS, most, (*NOT_UTF8, b"", b"z"), strict=True)]
    assert sorted(second if mode is OutputMode.UPDATE else ended, key=place) == wanted
    assert len(first) == (len(KEYS) if mode is OutputMode.UPDATE else 0)
    assert runs.keys_left() == 0


def place(row: tuple[Any, ...]) -> int:
    """The position in the order of `KEYS`."""
    return KEYS.index(row[0])


ROWS = pa.schema([("the.key", KEY), ("", pa.string()), (BIN_COLUMN, pa.int64())])
STATE = pa.schema([("st.x", pa.string()), pa.field("n", pa.int64(), nullable=False)])
OUTPUT = pa.schema([ROWS.field(0), *STATE])


def numbered(rows: list[tuple[int, dict[str, bytes | None] | None, bytes]]) -> pa.RecordBatch:
    """(bin, key, text), sorted by bin and key, as the JVM delivers them: names are numbers, and the input comes last."""
    bins, keys, found = zip(*rows, strict=True)
    few = len(rows)
    columns = [pa.array(bins, pa.int32()), pa.array([0] * few), column(KEY_AS_SENT, keys)]
    columns += [column(pa.large_string(), found), pa.array([7] * few)]
    return pa.RecordBatch.from_arrays(columns, [BIN_COLUMN, "__order", "c0", "c1", "c2"])


def kept(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The last text of each key and its number of occurrences, by positions."""
    assert (rows.schema, state.schema) == (ROWS, pa.schema([ROWS.field(0), *STATE]))
    assert rows[BIN_COLUMN].to_pylist() == [7] * len(rows)
    before = {repr(row[0]): row[2] for row in rows_of(state.to_batches()[0])} if len(state) else {}
    found = values(rows[""].combine_chunks())
    counts = [before.get(repr(key), 0) + 1 for key in values(keys.column(0))]
    after = pa.table([keys.column(0), column(pa.string(), found), pa.array(counts)], names=["the.key", "st.x", "n"])
    return after, after


def operator(function: Any) -> VectorisedState:
    """An operator around a function."""
    return VectorisedState(function, pa.schema([ROWS.field(0)]), ROWS, STATE, OUTPUT)


def test_a_function_sees_its_rows_whatever_their_names_bytes_and_types() -> None:
    """Columns are mapped to the user's names by position; strings and keys are restored from the state unchanged."""
    runs = Runs(operator(kept), rows_of)
    rows = [(at // 3, key, text) for at, (key, text) in enumerate(zip(KEYS, (*NOT_UTF8, b"", b"z"), strict=True))]
    runs.run([numbered(rows)])
    found = runs.run([numbered(rows)])
    assert found == [(key, text, 2) for _, key, text in rows]


def foreign(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """State of a key that does not exist."""
    key = column(KEY, [{"k": b"\xff\xfe", "c": b"x"}])
    made = pa.table([key, pa.array(["x"]), pa.array([1])], names=["the.key", "st.x", "n"])
    return made.slice(1), made


def absent(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Null in a column that must not have nulls."""
    made = pa.table([keys.column(0), pa.array(["x"]), pa.array([None], pa.int64())], names=["the.key", "st.x", "n"])
    return made.slice(1), made


@pytest.mark.parametrize(
    ("function", "message"), [(foreign, "the.key.*xff.*which this call did not touch"), (absent, r"nulls in \['n'\]")]
)
def test_what_is_wrong_with_odd_rows_is_named(function: Any, message: str) -> None:
    """This holds even if the value cannot be printed as text."""
    with pytest.raises(UserFunctionFailed, match=message):
        Runs(operator(function)).run([numbered([(0, {"k": b"\xff", "c": b"x"}, b"y")])])
