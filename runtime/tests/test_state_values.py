"""Values of states and frames, converted for many keys at once."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    Row,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from binshift.errors import UserFunctionFailed
from binshift.spark.tasks.frame_parts import FrameConf
from binshift.spark.tasks.pandas_frames import Frames, ReturnedFrames, keys_of
from binshift.spark.tasks.state_values import StateValues

PAIR = StructType([StructField("x", LongType()), StructField("at", TimestampType())])
NOW = datetime(2024, 3, 1, 12, 30, 0, 7)


def kept(type: DataType, *values: Any) -> list[Any]:
    """What states of one column are when they come back."""
    schema = StructType([StructField("v", type)])
    states = StateValues(schema)
    stored = states.columns([(value,) for value in values], to_arrow_schema(schema, timezone="UTC"))
    return [row[0] for row in states.rows(stored)]


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (ArrayType(LongType()), [[1, None], [], None]),
        (ArrayType(TimestampType()), [[NOW, None]]),
        (MapType(StringType(), LongType()), [{"a": 1, "b": None}, {}]),
        (MapType(StringType(), PAIR), [{"a": Row(x=1, at=NOW)}]),
        (PAIR, [Row(x=1, at=NOW), Row(x=None, at=None), None]),
        (DateType(), [date(1900, 1, 1), None]),
        (DecimalType(10, 2), [Decimal("1.50"), None]),
    ],
)
def test_values_come_back_as_they_were(type: DataType, values: list[Any]) -> None:
    """In every type, nested or not. Spark 4.3 cannot keep arrays and maps, so it is no oracle for them."""
    assert kept(type, *values) == values


def test_values_of_other_types_are_kept_by_the_rules_of_spark() -> None:
    """They are null, or cut, or text."""
    assert kept(LongType(), "x", 1.5, True, 1 << 70) == [None] * 4
    assert kept(ByteType(), 127, 128, -129) == [127, -128, 127]
    assert kept(DoubleType(), 1, True, 0.5) == [None, None, 0.5]
    assert kept(StringType(), 1, True, 1.5) == ["1", "true", "1.5"]
    assert kept(DecimalType(10, 2), Decimal("1.005"), 1) == [Decimal("1.01"), None]
    assert kept(ArrayType(LongType()), "no", (1, 2)) == [None, [1, 2]]


def test_a_state_of_another_length_is_an_error_of_spark() -> None:
    """The message has Spark's condition and both numbers."""
    schema = StructType([StructField("v", LongType())])
    with pytest.raises(UserFunctionFailed, match=r"\[STRUCT_ARRAY_LENGTH_MISMATCH\].*1 fields.*2 values"):
        StateValues(schema).columns([(1, 2)], to_arrow_schema(schema))


def rows_of(**columns: list[Any]) -> pa.RecordBatch:
    """Rows of whole numbers, booleans and text."""
    return pa.RecordBatch.from_pydict(columns)


def test_nulls_of_one_key_do_not_change_the_types_of_another() -> None:
    """Whole numbers with a null are floats in pandas, but only in the frames that have one."""
    frames = Frames(rows_of(k=["a", "a", "b", "c"], n=[1, 2, None, 4]), FrameConf("UTC"))
    found = [next(frames.of(*bounds)) for bounds in ((0, 2), (2, 3), (3, 4))]
    assert [str(each["n"].dtype) for each in found] == ["int64", "float64", "int64"]
    assert [list(each.index) for each in found] == [[0, 1], [0], [0]]
    assert list(frames.none().columns) == ["k", "n"]
    assert frames.none().empty


def test_frames_are_cut_and_can_be_changed() -> None:
    """A function may write to a frame; the frames of other keys stay as they are."""
    frames = Frames(rows_of(n=[1, 2, 3, 4]), FrameConf("UTC", records_max=2))
    first, second = frames.of(0, 3)
    assert (first["n"].tolist(), second["n"].tolist()) == ([1, 2], [3])
    with pd.option_context("mode.chained_assignment", "raise"):
        first["more"] = 1
        first.loc[0, "n"] = 9
    assert next(frames.of(3, 4))["n"].tolist() == [4]


def test_keys_have_the_types_of_numpy_unless_they_are_null() -> None:
    """As PySpark gives them to a function."""
    keys = keys_of(rows_of(n=[1, None], s=["a", None]), FrameConf("UTC"))
    assert [type(each).__name__ for key in keys for each in key] == ["int64", "str", "float64", "NoneType"]


def test_results_are_converted_when_there_are_many() -> None:
    """A call holds no more returned rows than one frame may have."""
    schema = StructType([StructField("n", LongType())])
    returned = ReturnedFrames(schema, to_arrow_schema(schema), FrameConf("UTC", records_max=2))
    for at in range(4):
        returned.add(pd.DataFrame({"n": [at]}))
    assert [each.num_rows for each in returned.batches] == [3]
    returned.flush()
    assert [each.to_pydict()["n"] for each in returned.batches] == [[0, 1, 2], [3]]
