"""Vectorised functions with timeouts, over random histories, compared with dictionaries."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_operators_group_states import KEYS, ROWS, STATE, Epochs, at, batch_of

from binshift.errors import UserFunctionFailed
from binshift.operators.contract import Wake
from binshift.operators.timed_states import Timeout
from binshift.operators.vectorised_timeouts import NOW_COLUMN, TIMED_OUT_COLUMN, TIMEOUT_COLUMN, TimedVectorisedState

OUTPUT = pa.schema([("key", pa.int64()), ("total", pa.int64()), ("timed_out", pa.bool_())])
AFTER = pa.schema([("key", pa.int64()), ("total", pa.int64()), (TIMEOUT_COLUMN, pa.int64())])

Row = tuple[int, int, int]
State = dict[int, tuple[int, int | None]]


def stepped(state: tuple[int, int | None] | None, rows: Sequence[Row], now: int) -> tuple[int, int | None] | None:
    """The new total and timeout of a key: its last row orders the timeout, 0 none; without rows, odd totals end."""
    total, timeout = state or (0, None)
    if not rows:
        return None if total % 2 else (total, timeout)
    wait = rows[-1][2]
    return total + sum(add for _, add, _ in rows), now + wait if wait else None


def function(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The same for many keys."""
    before = {row["key"]: (row["total"], row[TIMEOUT_COLUMN]) for row in state.to_pylist()}
    found, output, after = rows.to_pylist(), [], []
    for key in keys.to_pylist():
        mine = [(row["key"], row["add"], row["wait"]) for row in found if row["key"] == key["key"]]
        assert key[TIMED_OUT_COLUMN] == (not mine)
        new = stepped(before.get(key["key"]), mine, key[NOW_COLUMN])
        output.append({"key": key["key"], "total": new and new[0], "timed_out": key[TIMED_OUT_COLUMN]})
        after += [{"key": key["key"], "total": new[0], TIMEOUT_COLUMN: new[1]}] if new else []
    return pa.Table.from_pylist(output, schema=OUTPUT), pa.Table.from_pylist(after, schema=AFTER)


OPERATOR = TimedVectorisedState(function, KEYS, ROWS, STATE, OUTPUT, group_bytes_max=1, timeout=Timeout.PROCESSING_TIME)


def folded(states: State, rows: Sequence[Row], now: int) -> list[tuple[int, int | None, bool]]:
    """What an epoch emits; the states change."""
    touched = list(dict.fromkeys(row[0] for row in rows))
    late = [key for key, (_, timeout) in states.items() if timeout is not None and timeout < now and key not in touched]
    emitted = []
    for key in (*touched, *late):
        new = stepped(states.pop(key, None), [row for row in rows if row[0] == key], now)
        emitted.append((key, new and new[0], key in late))
        if new is not None:
            states[key] = new
    return emitted


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.sampled_from([0, 1, 5, 50])), max_size=8),
            st.integers(1, 20),
        ),
        max_size=12,
    )
)
def test_states_and_timeouts_equal_those_of_dictionaries(history: list[tuple[list[Row], int]]) -> None:
    """Each key gets one call in an epoch; the first timeout wakes the stream; nothing is left behind."""
    epochs, states, now = Epochs(OPERATOR), State(), 0
    for rows, passed in history:
        now += passed
        emitted, state = epochs.run(batch_of(rows), at(now))
        assert sorted(emitted, key=repr) == sorted(folded(states, rows, now), key=repr)
        timeouts = [timeout for _, timeout in states.values() if timeout is not None]
        assert state.wake == Wake(state.times.expiries, 1)
        assert epochs.first() == min(timeouts, default=None)
        assert epochs.rows_stored() == len(states) + len(timeouts)


def test_a_state_without_its_timeout_is_named() -> None:
    """The column is part of the new state."""

    def without(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        output, after = function(keys, rows, state)
        return output, after.drop_columns([TIMEOUT_COLUMN])

    epochs = Epochs(functools.partial(TimedVectorisedState, without)(KEYS, ROWS, STATE, OUTPUT))
    with pytest.raises(UserFunctionFailed, match=r"state has the columns .* it must have .*'timeout'"):
        epochs.run(batch_of([(1, 1, 1)]), at(1))
