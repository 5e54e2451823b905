"""Frames that are joined in parts equal pandas' own concatenation, and cut ones equal its slices."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.spark.tasks.frame_parts import joined, rows_of

COLUMNS: dict[str, list[Any]] = {
    "whole": [1, -(2**62)],
    "float": [0.5, float("nan")],
    "nan": [float("nan")],
    "text": ["a", None],
    "none": [None],
    "bool": [True, False],
    "time": [pd.Timestamp("2026-01-01"), pd.NaT],
    "zoned": [pd.Timestamp("2026-01-01", tz="Europe/Berlin")],
    "list": [[1, 2]],
    "small": [np.int8(3)],
    "nothing": [],
}


def frame(kinds: tuple[str, ...], names: tuple[str, ...]) -> pd.DataFrame:
    """A frame with a column of each kind."""
    rows = min(len(COLUMNS[kind]) for kind in kinds)
    return pd.DataFrame({name: pd.Series(COLUMNS[kind][:rows]) for name, kind in zip(names, kinds, strict=True)})


frames = st.builds(
    frame, st.tuples(*2 * [st.sampled_from(sorted(COLUMNS))]), st.sampled_from([("a", "b"), ("b", "a"), ("a", "c")])
)


@given(st.lists(frames, min_size=1, max_size=8))
def test_parts_give_what_one_concatenation_gives(given: list[pd.DataFrame]) -> None:
    """Values and types of columns are the same, whatever the order of frames with other columns and types."""
    given = [each for each in given if len(each)]
    if not given:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        expected = pd.concat(given, ignore_index=True)
        found = pd.concat(list(joined(given)), ignore_index=True)
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 3), (1, 2), (2, 3)])
def test_rows_are_counted_from_zero_and_may_be_changed(start: int, stop: int) -> None:
    """A user gets the rows with an index of their own, and a change of them warns of nothing."""
    whole = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    expected = whole.iloc[start:stop].reset_index(drop=True)
    found = rows_of(whole, start, stop)
    pd.testing.assert_frame_equal(found, expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found["c"] = 1
