"""Operators name the columns of their key (`binshift.operators.contract.Keyed`)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import BIN_COLUMN, Keyed, Processor
from binshift.operators.deduplicate import Deduplicate
from binshift.operators.delayed import Delayed
from binshift.operators.group_states import GroupStates
from binshift.operators.join import Join, JoinType
from binshift.operators.join_condition import ConditionedJoin
from binshift.operators.limit import Limit
from binshift.operators.processor.operator import StatefulProcessing, TimeMode
from binshift.operators.sessions import Sessions
from binshift.operators.timed_states import Timeout
from binshift.operators.vectorised import VectorisedState
from binshift.operators.vectorised_timeouts import TimedVectorisedState

NOTHING = pa.schema([])
KEYS = pa.schema([("a", pa.string()), ("b", pa.int64())])
ROWS = pa.schema([("x", pa.int64()), ("b", pa.int64()), ("a", pa.string())])
JOIN = Join(KEYS, NOTHING, NOTHING, JoinType.INNER, (0, 0))
UNUSED = None  # a user's function, which no test here calls


def batch(**columns: object) -> pa.RecordBatch:
    """One row."""
    return pa.RecordBatch.from_pylist([{BIN_COLUMN: 1, "__order": 5, **columns}])


@pytest.mark.parametrize(
    "operator",
    [
        Aggregate(KEYS, NOTHING, (), OutputMode.UPDATE),
        Sessions(KEYS, NOTHING, (), OutputMode.APPEND),
        Deduplicate(KEYS, ROWS),
        JOIN,
        ConditionedJoin(JOIN),
        Delayed(JOIN, 1_000),
    ],
    ids=lambda each: type(each).__name__,
)
def test_keys_by_their_names(operator: Keyed) -> None:
    """Most operators know the columns of their input by name."""
    found = operator.key_columns(batch(x=7, b=3, a="k"))
    assert [each.to_pylist() for each in found] == [["k"], [3]]


@pytest.mark.parametrize(
    "operator",
    [
        VectorisedState(UNUSED, KEYS, ROWS, NOTHING, NOTHING),  # type: ignore[arg-type]
        TimedVectorisedState(UNUSED, KEYS, ROWS, NOTHING, NOTHING),  # type: ignore[arg-type]
        GroupStates(UNUSED, KEYS, ROWS, NOTHING, NOTHING, Timeout.NONE),  # type: ignore[arg-type]
    ],
    ids=lambda each: type(each).__name__,
)
def test_keys_by_their_positions(operator: Keyed) -> None:
    """The user's columns are the last ones, in the order of the schema, under any name."""
    found = operator.key_columns(batch(c0=7, c1=3, c2="k"))
    assert [each.to_pylist() for each in found] == [["k"], [3]]


def test_keys_of_a_processor() -> None:
    """They have a prefix."""
    operator = StatefulProcessing(UNUSED, KEYS, ROWS, NOTHING, (), TimeMode.NONE)  # type: ignore[arg-type]
    found = operator.key_columns(batch(c0=7, k0="k", k1=3))
    assert [each.to_pylist() for each in found] == [["k"], [3]]


def test_operators_with_one_key_for_all_rows() -> None:
    """No column distinguishes keys."""
    single = Aggregate(pa.schema([("k0", pa.int32())]), NOTHING, (), OutputMode.UPDATE, keyless=True)
    limit: Processor = Limit(ROWS, 5)
    assert list(single.key_columns(batch(k0=0))) == []
    assert list(Delayed(Limit(ROWS, 5), 1).key_columns(batch(c0=1))) == []
    assert not isinstance(limit, Keyed)
