"""Values of processors' states: what the JVM would have made of them, and their packed forms."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processor_world import struct
from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from binshift.errors import LogDamaged
from binshift.operators.processor.chunks import ChunkCodec, Elements, Header, pack_headers, unpack_headers
from binshift.operators.processor.layout import index_keys, indexed_key, key_of, sized, variable_keys, variable_of
from binshift.operators.processor.packing import key_packer
from binshift.operators.processor.variables import TupleCodec, columns_of, inner_schema
from binshift.rows import RowCodec
from binshift.spark.tasks.processor_types import to_python
from binshift.spark.tasks.stored_rows import Stored

AT = datetime(2024, 3, 31, 1, 30, 0, 123456)

CASES: list[tuple[T.DataType, Any, Any]] = [
    (T.LongType(), 1.0, None),
    (T.LongType(), True, None),
    (T.LongType(), 1 << 64, None),
    (T.LongType(), np.int8(3), 3),
    (T.IntegerType(), (1 << 31) + 1, -(1 << 31) + 1),
    (T.ByteType(), 300, 44),
    (T.DoubleType(), 1, None),
    (T.DoubleType(), np.float32(0.5), 0.5),
    (T.FloatType(), 0.1, 0.10000000149011612),
    (T.FloatType(), 1e300, float("inf")),
    (T.StringType(), 5, "5"),
    (T.StringType(), True, "true"),
    (T.BooleanType(), 1, None),
    (T.BinaryType(), "ä", "ä".encode()),
    (T.BinaryType(), bytearray(b"x"), b"x"),
    (T.DecimalType(5, 2), Decimal("1.255"), Decimal("1.26")),
    (T.DecimalType(3, 2), Decimal("12.5"), None),
    (T.DecimalType(5, 2), 1.5, None),
    (T.DateType(), date(1969, 12, 31), date(1969, 12, 31)),
    (T.TimestampNTZType(), AT, AT),
    (T.TimestampType(), pd.Timestamp(AT), AT),
    (T.ArrayType(T.DateType()), [date(2024, 1, 1), None], [date(2024, 1, 1), None]),
    (T.ArrayType(T.LongType()), 5, None),
    (T.MapType(T.StringType(), T.IntegerType()), {"a": 1, "b": None}, {"a": 1, "b": None}),
    (struct(x=T.IntegerType(), d=T.DateType()), (1, date(2024, 1, 1)), Row(x=1, d=date(2024, 1, 1))),
]


@pytest.mark.parametrize(("type", "given_value", "expected"), CASES, ids=lambda value: repr(value)[:40])
def test_values_are_what_the_jvm_makes_of_them(type: T.DataType, given_value: Any, expected: Any) -> None:
    """A value of another kind than declared becomes null, wide numbers are cut, and so on."""
    schema = struct(c=type)
    stored = Stored(schema)((given_value,))
    columns = columns_of([stored], inner_schema(to_arrow_schema(schema, timezone="UTC")))
    python = to_python(schema)
    for inner in (stored, (columns[0].to_pylist()[0],)):  # in the epoch itself, and read again
        assert (inner if python is None else python(inner)) == (expected,)


def test_times_are_instants() -> None:
    """A time with a zone is stored as its instant."""
    stored = Stored(struct(c=T.TimestampType()))((AT.replace(tzinfo=UTC),))
    assert stored == (int(AT.replace(tzinfo=UTC).timestamp()) * 1_000_000 + AT.microsecond,)


KEY = pa.schema([("s", pa.string()), ("n", pa.int64()), ("d", pa.float64()), ("b", pa.bool_()), ("x", pa.binary())])
keys = st.tuples(
    st.none() | st.text(max_size=8),
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    st.none() | st.floats(),
    st.none() | st.booleans(),
    st.none() | st.binary(max_size=8),
)


@given(keys)
def test_single_keys_are_packed_as_batches_are(key: tuple[Any, ...]) -> None:
    """The short way gives the codec's bytes."""
    codec = RowCodec(KEY)
    assert key_packer(codec)(key) == codec.pack_columns(columns_of([key], KEY), 1)[0].as_py()


def test_numbers_of_other_types_are_other_keys() -> None:
    """True and 1, and 0.0 and -0.0, are equal to Python and have bytes of their own type."""
    codec = RowCodec(pa.schema([("d", pa.float64())]))
    assert key_packer(codec)((0.0,)) == key_packer(codec)((-0.0,))
    nested = RowCodec(pa.schema([("l", pa.list_(pa.int64()))]))
    assert key_packer(nested)(([1, 2],)) == nested.pack_columns([pa.array([[1, 2]])], 1)[0].as_py()


TYPES: list[T.DataType] = [
    *(T.LongType(), T.IntegerType(), T.ByteType(), T.StringType(), T.VarcharType(3), T.BooleanType(), T.DoubleType()),
    *(T.FloatType(), T.DateType(), T.ArrayType(T.LongType())),
]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, 300, -(1 << 31) - 1, 1 << 63, 0.0, 0.1, 1e300, "", "a", "true"),
    *(np.int8(3), np.float32(0.5), np.bool_(True), [1, 300]),
]
schemas = st.lists(st.sampled_from(TYPES), min_size=1, max_size=3).map(
    lambda types: struct(**{f"c{at}": each for at, each in enumerate(types)})
)


@given(schemas, st.data())
def test_rows_that_are_converted_together_become_what_each_becomes_alone(schema: T.StructType, data: Any) -> None:
    """Whether values wait for the conversion or not; to convert twice changes nothing."""
    dates = st.none() | st.dates()  # others have no inner form
    values = [dates if field.dataType == T.DateType() else st.sampled_from(VALUES) for field in schema]
    rows = data.draw(st.lists(st.tuples(*values), max_size=5))
    stored = Stored(schema)
    alone = [stored(row) for row in rows]
    assert repr(stored.converted(stored.deferred(rows))) == repr(alone)
    assert repr(stored.converted([*alone, *stored.deferred(rows)])) == repr([*alone, *alone])


def test_values_that_can_change_are_converted_at_once() -> None:
    """What a user's code does with a list after it was put into a text column does not change the state."""
    stored, changing = Stored(struct(c=T.StringType())), [1]
    waiting = stored.deferred([(changing,)])
    changing.append(2)
    assert stored.converted(waiting) == [("[1]",)]
    with pytest.raises(ValueError, match="1 fields are required while 2 values"):
        stored.deferred([("a",), ("a", "b")])


elements = st.lists(
    st.tuples(st.tuples(st.none() | st.integers(0, 9), st.none() | st.text(max_size=3)), st.integers(0, 99))
).map(lambda pairs: Elements([values for values, _ in pairs], [ends for _, ends in pairs]))


@given(st.lists(elements, max_size=5))
def test_chunks_come_back(chunks: list[Elements]) -> None:
    """Elements and expiries are what they were."""
    codec = ChunkCodec([pa.schema([("n", pa.int64()), ("s", pa.string())])])
    assert codec.unpack(codec.pack(chunks)) == chunks


def test_damaged_state_is_an_error() -> None:
    """Bytes that no variable has are refused, and so is another version of a schema."""
    codec = TupleCodec([pa.schema([("n", pa.int64())])], expires=True)
    packed = codec.pack([(1,)], [5])
    assert codec.unpack(packed) == ([(1,)], [5])
    for damaged in (b"\x00", b"\x00\x02" + packed[0].as_py()[2:], packed[0].as_py()[:-1]):
        with pytest.raises(LogDamaged):
            codec.unpack(pa.array([damaged]))
    lists = ChunkCodec([pa.schema([("n", pa.int64())])])
    with pytest.raises(LogDamaged, match="are missing"):
        lists.unpack(pa.array([None], pa.binary()))
    with pytest.raises(LogDamaged, match="version"):
        lists.unpack(pa.array([b"\x00\x09"]))
    header = Header(0, 2, 65, 1, 7)
    assert unpack_headers(pa.array([None, *pack_headers([header]).to_pylist()])) == {1: header}
    with pytest.raises(LogDamaged):
        unpack_headers(pa.array([b"short"]))


def test_keys_of_rows_hold_what_is_found_in_them() -> None:
    """Variable and grouping key are read back from rows and from the index."""
    packed = pa.array([b"", b"key"])
    rows = variable_keys(b"\x00", 258, sized(packed))
    assert [(variable_of(row), key_of(row)) for row in rows.to_pylist()] == [(258, b""), (258, b"key")]
    index = index_keys(pa.array([-1, 5], pa.int64()), rows)
    assert [indexed_key(each) for each in index.to_pylist()] == rows.to_pylist()
    assert index.to_pylist() == sorted(index.to_pylist())


def test_protobuf_is_not_needed() -> None:
    """Nothing that runs in a task imports protobuf, or PySpark's messages for its state server."""
    code = (
        "import sys; sys.modules['google.protobuf'] = None\n"
        "from binshift.spark.tasks import processor_calls, processor_frames, processor_rows\n"
        "from binshift.spark.stages import definitions\n"
        "assert not any('StateMessage' in name for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
