"""`Join` against nested loops, over random histories of all types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_fold import JoinFold, JoinOfThree, Sent, join, sent
from operator_histories import Key, TwoWorkers, keys, sorted_rows, splits
from spark_strings import NOT_UTF8

from binshift.model import BinSet
from binshift.operators import join_chunks, join_epoch, join_lists
from binshift.operators.contract import EXPIRY_SPACE
from binshift.operators.join import Comparison, Join, JoinType

RANGE = (Comparison("l2", ">=", "r2"), Comparison("l3", "!=", "r3"))
OPERATORS = {
    **{type.value: join(type) for type in JoinType},
    **{f"{type.value}, compared": join(type, RANGE) for type in JoinType},
    "full outer, a bin and a few pairs at a time": join(
        JoinType.FULL_OUTER, RANGE, group_bytes_max=1, batch_rows_max=3
    ),
}
"""Each form of the operator."""

FEW = settings(max_examples=settings().max_examples // 4)
"""Each test below runs for several forms of the operator, which share their code."""

few_keys: st.SearchStrategy[Key] = (
    st.sampled_from([(b"a", -0.0), (b"a", 0.0), (b"\xff", float("nan")), (b"a", None), (None, 0.0)]) | keys
)
times = st.none() | st.integers(-20, 150)
numbers = st.sampled_from([None, 0.0, -0.0, 1.0, -1.5, float("nan"), float("inf")])
texts = st.sampled_from([None, b"", b"x", *NOT_UTF8])


@st.composite
def rows(draw: st.DrawFn) -> Sent:
    """A row of either side."""
    side = draw(st.integers(0, 1))
    second = draw(st.lists(texts, max_size=2)) if side else draw(texts)
    row = (draw(st.integers(0, 3)), second, draw(numbers), draw(texts))
    return Sent(side, draw(few_keys), draw(times), draw(times), draw(st.sampled_from([True] * 5 + [False])), row)


History = list[tuple[list[Sent], int, BinSet, int]]
epochs = st.lists(st.tuples(st.lists(rows(), max_size=14), st.integers(0, 40), splits, st.integers(1, 4)), max_size=7)
"""Rows, how far the watermark moves, the first worker's bins, and the rows in a batch."""


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@FEW
@given(history=epochs)
def test_pairs_and_unmatched_rows_come_out_once(operator: Join, history: History) -> None:
    """Epoch by epoch, output and late rows equal those of nested loops."""
    check(operator, history)


@pytest.mark.parametrize("type", JoinType)
@FEW
@given(history=epochs)
def test_lists_of_several_chunks(type: JoinType, history: History) -> None:
    """With chunks of two rows, and parts of two keys and one sealed chunk, the result is the same."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(join_chunks, "CHUNK_ROWS_MAX", 2)
        patched.setattr(join_epoch, "KEYS_AT_ONCE", 2)
        patched.setattr(join_epoch, "SEALED_AT_ONCE", 1)
        patched.setattr(join_lists, "EVICTED_CHUNKS", 1)
        few = {0: (b"a", 0.0), 1: (b"b", 0.0), 2: (None, 0.0)}
        few_rows = [
            ([replace(row, key=few[row.row[0] % 3]) for row in epoch], moved, first, cut)
            for epoch, moved, first, cut in history
        ]
        check(join(type, [Comparison("l0", "<=", "r0")]), few_rows)


@pytest.mark.parametrize("type", JoinType)
@FEW
@given(history=epochs, limit=st.integers(1, 1 << 20))
def test_a_condition_that_is_evaluated_between_two_parts(type: JoinType, history: History, limit: int) -> None:
    """The part before it and the part behind it number the same pairs, in groups and batches of any size."""
    joined = join(type, [Comparison("l3", "!=", "r3")], group_bytes_max=limit, batch_rows_max=1 + limit % 3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(join_chunks, "CHUNK_ROWS_MAX", 2)
        patched.setattr(join_epoch, "KEYS_AT_ONCE", 2)
        check(joined, history, odd_sum)


def odd_sum(left: int, right: int) -> bool:
    """A condition of both sides."""
    return (left + right) % 2 == 1


def check(operator: Join, history: History, condition: Callable[[int, int], bool] | None = None) -> None:
    """Compare each epoch with the reference; in the end only rows without an expiry are stored."""
    if condition is None:
        workers, fold, watermark = TwoWorkers(operator), JoinFold(operator), 0
    else:
        workers, watermark = TwoWorkers(JoinOfThree.of(operator, condition)), 0
        fold = JoinFold(operator, lambda left, right: condition(left[0], right[0]))
    for epoch, moved, first, cut in history:
        watermark += moved
        output = workers.run(sent(epoch), watermark, first, cut)
        assert sorted_rows(output) == sorted_rows(fold.epoch(epoch, watermark))
        assert workers.late == fold.late
    output = workers.run(sent([]), 1000)
    assert sorted_rows(output) == sorted_rows(fold.epoch([], 1000))
    lasting = [each for each in fold.held if each.sent.matches]
    assert all(each.sent.expiry is None for each in lasting)
    assert not any(key.startswith(EXPIRY_SPACE) for _, key in workers.stored())
    assert bool(workers.stored()) == bool(lasting)
