"""Rows for users' code are PySpark's rows in everything that a program can see of them."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from functools import partial
from operator import getitem
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import Row

from binshift.spark.tasks.user_rows import row_maker, values_of

NAMES = st.sampled_from(["id", "count", "index", "asDict", "__fields__", "__len__", "_hidden", "a b", "ß", ""])


def both(names: list[str]) -> tuple[Row, Row]:
    """A row of `row_maker` and one of PySpark, with the same values."""
    values = tuple(range(len(names)))
    return row_maker(names)(values), Row(*names)(*values)


def seen(read: Callable[[], Any]) -> Any:
    """What a program gets, or the error."""
    try:
        return read()
    except (PySparkException, TypeError, AttributeError) as error:
        return type(error), str(error)


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_columns_are_found_as_in_pyspark(names: list[str]) -> None:
    """Attributes, items, `in` and dictionaries give what they give in PySpark's row, errors included."""
    ours, theirs = both(names)
    for name in [*names, "missing", "__missing"]:
        found, expected = seen(partial(getattr, ours, name)), seen(partial(getattr, theirs, name))
        assert callable(found) if callable(expected) else found == expected, name
        assert seen(partial(getitem, ours, name)) == seen(partial(getitem, theirs, name))
        assert (name in ours) == (name in theirs)
    assert ours.asDict() == theirs.asDict()
    assert ours.__fields__ == theirs.__fields__


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_rows_are_equal_and_travel_as_pyspark_rows(names: list[str]) -> None:
    """Rows are equal and hash alike, and what is pickled or copied is PySpark's own row."""
    ours, theirs = both(names)
    assert ours == theirs
    assert hash(ours) == hash(theirs)
    assert repr(ours) == repr(theirs)
    assert isinstance(ours, Row)
    for other in (pickle.loads(pickle.dumps(ours)), copy.copy(ours), copy.deepcopy(ours)):
        assert type(other) is Row
        assert other == theirs
        assert other.__fields__ == theirs.__fields__


def test_classes_are_made_while_garbage_is_collected() -> None:
    """Whatever a class is made from must not be garbage before it is made."""
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        rows = [row_maker([f"a{number}", "b", "c"])((number, 1, 2)) for number in range(50)]
    finally:
        gc.set_threshold(*before)
    assert [row.b for row in rows] == [1] * 50


def test_a_row_cannot_be_changed() -> None:
    """An attribute cannot be set."""
    ours, _ = both(["id", "n"])
    with pytest.raises(PySparkException, match="READ_ONLY"):
        ours.id = 3


def test_a_row_makes_rows_like_pyspark_rows() -> None:
    """A row can be called and cut like PySpark's."""
    ours, theirs = both(["id", "n"])
    assert ours(5, 6) == theirs(5, 6)
    assert ours[0:2] == theirs[0:2] == (0, 1)
    assert type(ours[0:2]) is tuple


DAY = 86_400_000_000
YEARS_OF_PYTHON = st.integers(-719_162 * DAY, 2_932_897 * DAY - 1)


@given(st.lists(st.none() | YEARS_OF_PYTHON))
def test_times_are_what_arrow_makes_of_them(micros: list[int | None]) -> None:
    """Every time that Python has is converted as before, in UTC and without a time zone; so are other types."""
    for type in (pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.int64()):
        column = pa.array(micros, type)
        found, expected = values_of(column), column.to_pylist()
        assert found == expected
        assert [getattr(each, "tzinfo", None) for each in found] == [getattr(each, "tzinfo", None) for each in expected]


def test_a_year_that_python_does_not_have_is_an_error_as_before() -> None:
    """The error is Arrow's."""
    with pytest.raises(OverflowError, match="out of range"):
        values_of(pa.array([1 << 62], pa.timestamp("us", "UTC")))
