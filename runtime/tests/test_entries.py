"""Entries against a simple model: a dict from (bin, key) to value."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift import binary, entries
from binshift.entries import Entries
from binshift.invariants import InvariantViolated
from binshift.model import BinSet

Row = tuple[int, bytes, bytes | None]
ROWS = st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=3), st.none() | st.binary(max_size=4)), max_size=12)


def _entries(rows: list[Row], lead: int = 0) -> Entries:
    """The rows as a batch that is a slice of a longer one."""
    padded: list[Row] = [(9, b"zz", b"zz")] * lead + rows
    return entries.make([r[0] for r in padded], [r[1] for r in padded], [r[2] for r in padded]).slice(lead)


def _rows(batch: Entries) -> list[Row]:
    return list(zip(*[column.to_pylist() for column in batch.columns], strict=True))


@pytest.mark.parametrize("words_min", [2, entries.WORDS_MIN])
@given(ROWS, st.integers(0, 2))
def test_sort_orders_by_bin_then_key_and_keeps_ties(words_min: int, rows: list[Row], lead: int) -> None:
    """Sorting is Python's stable sort by (bin, key)."""
    with patch.object(entries, "WORDS_MIN", words_min):
        batch = entries.sort(_entries(rows, lead))
    assert sorted(rows, key=lambda row: row[:2]) == _rows(batch)
    assert entries.is_sorted(batch)


@given(st.binary(max_size=70), st.lists(st.binary(max_size=10), min_size=1, max_size=8), st.integers(0, 2))
def test_words_compare_as_their_values_do(shared: bytes, rest: list[bytes], lead: int) -> None:
    """There are none only where values are longer than a word behind what they share."""
    values = [shared + each for each in rest]
    words = binary.words(pa.array([b"zz"] * lead + values, pa.binary()).slice(lead))
    if words is None:
        assert max(map(len, rest)) > 7 or len(shared) > 64 - 8
        return
    assert len(set(words.tolist())) == len(set(values))
    assert [values[at] for at in np.argsort(words)] == sorted(values)


@given(st.lists(ROWS, max_size=4), st.integers(0, 2))
def test_merge_keeps_the_last_value_of_each_key(parts: list[list[Row]], lead: int) -> None:
    """Merging is a dict's update, batch by batch, row by row."""
    model = {(b, key): value for part in parts for b, key, value in part}
    merged = entries.merge_last_wins([_entries(part, lead) for part in parts])
    assert [(b, key, value) for (b, key), value in sorted(model.items())] == _rows(merged)
    assert entries.is_sorted(merged, strictly=True)


@given(ROWS, st.sets(st.integers(0, 4)), st.integers(0, 2))
def test_restrict_keeps_rows_of_the_bins(rows: list[Row], bins: set[int], lead: int) -> None:
    """Restricting is a filter that keeps the order."""
    assert [row for row in rows if row[0] in bins] == _rows(entries.restrict(_entries(rows, lead), BinSet(bins)))


@given(ROWS, st.integers(1, 20), st.integers(1, 4), st.integers(0, 2))
def test_cut_is_a_partition_within_the_limits(rows: list[Row], bytes_max: int, rows_max: int, lead: int) -> None:
    """The pieces together are the batch; each is within both limits unless it is a single row."""
    pieces = list(entries.cut(_entries(rows, lead), bytes_max, rows_max))
    assert [row for piece in pieces for row in _rows(piece)] == rows
    for piece in pieces:
        assert piece.num_rows <= rows_max
        assert piece.num_rows == 1 or entries.size_bytes(piece) <= bytes_max


@given(ROWS, st.integers(0, 2))
def test_size_counts_bins_keys_and_values(rows: list[Row], lead: int) -> None:
    """The size is four bytes per bin, and the bytes of keys and values, for a slice too."""
    expected = sum(4 + len(key) + len(value or b"") for _, key, value in rows)
    assert entries.size_bytes(_entries(rows, lead)) == expected


def test_an_entry_without_bin_or_key_is_refused() -> None:
    """Only values may be null."""
    with pytest.raises(InvariantViolated):
        entries.make([1], [None], [b"x"])
    with pytest.raises(InvariantViolated):
        entries.make([1, 2], [b"k"], [b"x"])
