"""The row codec against plain Python values: round trips, canonical form, damage."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spark_strings import NOT_UTF8, column, texts, values

from binshift import binary
from binshift.errors import LogDamaged, Unsupported
from binshift.rows import RowCodec, of_type

FLOATS = st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, math.nan, math.inf])
MOMENTS = st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1))
SCALARS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 65535),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan]),
    pa.float64(): FLOATS,
    pa.date32(): st.dates(date(1800, 1, 1), date(2200, 1, 1)),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("ms", "Europe/Berlin"): MOMENTS.map(lambda at: at.replace(microsecond=0)),
    pa.duration("us"): st.timedeltas(timedelta(-9999), timedelta(9999)),
    pa.decimal128(12, 3): st.integers(-(10**9), 10**9).map(lambda n: Decimal(n) / 1000),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.string(): texts(8),
    pa.large_string(): texts(8),
    pa.binary(): st.binary(max_size=8),
    pa.large_binary(): st.binary(max_size=8),
    pa.null(): st.none(),
}


def _containers(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(inner, max_size=3).map(lambda ts: pa.struct([(f"f{at}", t) for at, t in enumerate(ts)]))
    maps = inner.map(lambda value: pa.map_(pa.string(), value))
    return st.one_of(inner.map(pa.list_), inner.map(pa.large_list), maps, structs)


@cache
def _values(type: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, including null."""
    if type in SCALARS:
        return st.none() | SCALARS[type]
    if pa.types.is_struct(type):
        return st.none() | st.fixed_dictionaries({field.name: _values(field.type) for field in type})
    if pa.types.is_map(type):
        return st.none() | st.lists(st.tuples(texts(3), _values(type.item_type)), max_size=3)
    return st.none() | st.lists(_values(type.value_type), max_size=3)


SCHEMAS = st.lists(st.recursive(st.sampled_from(list(SCALARS)), _containers, max_leaves=4), max_size=4)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """A batch of random columns, some rows twice, possibly a slice of a longer one."""
    types = draw(SCHEMAS)
    rows = draw(st.lists(st.tuples(*map(_values, types)), max_size=6))
    picks = draw(st.lists(st.sampled_from(rows), max_size=8)) if rows else []
    arrays = [column(type, [row[at] for row in picks]) for at, type in enumerate(types)]
    schema = pa.schema([(f"c{at}", type) for at, type in enumerate(types)])
    whole = pa.StructArray.from_buffers(pa.struct(list(schema)), len(picks), [None], children=arrays)
    start = draw(st.integers(0, len(picks)))
    return pa.RecordBatch.from_struct_array(whole).slice(start, draw(st.integers(0, len(picks) - start)))


def _exact(value: object) -> object:
    """The value with distinctions that `==` ignores."""
    if isinstance(value, float):
        return struct.pack("<d", value) if not math.isnan(value) else "nan"
    if isinstance(value, dict):
        return tuple((name, _exact(inner)) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(_exact(inner) for inner in value)
    return value


def _grouped(value: object) -> object:
    """The value as grouping treats it: one zero, one NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, _grouped(inner)) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(_grouped(inner) for inner in value)
    return value


def _rows(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    columns = [values(each) for each in batch.columns]
    return [tuple(each[at] for each in columns) for at in range(batch.num_rows)]


@given(batches())
def test_exact_codec_gives_back_every_value(batch: pa.RecordBatch) -> None:
    """Packing and unpacking returns the same batch, including the sign of zero."""
    codec = RowCodec(batch.schema, canonical=False)
    packed = codec.pack(batch)
    assert packed.null_count == 0
    back = codec.unpack(packed)
    back.validate()
    assert back.schema == batch.schema
    assert back.num_rows == batch.num_rows
    assert [_exact(row) for row in _rows(batch)] == [_exact(row) for row in _rows(back)]


@given(batches())
def test_equal_rows_have_equal_bytes_and_no_others(batch: pa.RecordBatch) -> None:
    """The canonical form is a bijection between rows, as grouping treats them, and bytes."""
    packed = RowCodec(batch.schema).pack(batch).to_pylist()
    rows = [_grouped(row) for row in _rows(batch)]
    assert [[a == b for b in rows] for a in rows] == [[a == b for b in packed] for a in packed]


@given(batches(), st.data())
def test_slices_and_absent_rows_unpack_as_if_alone(batch: pa.RecordBatch, data: st.DataObject) -> None:
    """A slice of packed rows is the slice of the batch; a null row has null in every column."""
    codec = RowCodec(batch.schema, canonical=False)
    packed = codec.pack(batch)
    gone = data.draw(st.lists(st.booleans(), min_size=len(packed), max_size=len(packed)))
    start = data.draw(st.integers(0, len(packed)))
    holed = pa.array([None if lost else row for row, lost in zip(packed.to_pylist(), gone, strict=True)], pa.binary())
    nothing = tuple(None for _ in batch.schema)
    expected = [nothing if lost else row for row, lost in zip(_rows(batch), gone, strict=True)]
    assert [_exact(row) for row in expected[start:]] == [_exact(row) for row in _rows(codec.unpack(holed[start:]))]


@given(batches(), st.data())
def test_damaged_bytes_raise_or_unpack_but_never_crash(batch: pa.RecordBatch, data: st.DataObject) -> None:
    """For any bytes, the codec returns a valid batch or raises LogDamaged."""
    codec = RowCodec(batch.schema)
    rows = codec.pack(batch).to_pylist() or [b""]
    at = data.draw(st.integers(0, len(rows) - 1))
    row = bytearray(rows[at])
    for _ in range(data.draw(st.integers(0, 3))):
        if row:
            row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
    rows[at] = bytes(row[: data.draw(st.integers(0, len(row)))]) + data.draw(st.binary(max_size=3))
    try:
        back = codec.unpack(pa.array(rows, pa.binary()))
    except LogDamaged:
        return
    assert back.num_rows == len(rows)
    back.validate()


@pytest.mark.parametrize("type", [pa.int64(), pa.string(), pa.list_(pa.int64()), pa.list_(pa.string()), pa.bool_()])
def test_truncated_and_overlong_rows_are_damage(type: pa.DataType) -> None:
    """A row without its last byte, or with one too many, raises LogDamaged."""
    codec = RowCodec(pa.schema([("c", type)]))
    values = {pa.int64(): 7, pa.string(): "seven", pa.bool_(): True}
    value = values.get(type, ["a"] if type == pa.list_(pa.string()) else [7])
    row = codec.pack(pa.record_batch([pa.array([value], type)], schema=codec.schema))[0].as_py()
    for wrong in (row[:-1], row + b"\0", b""):
        with pytest.raises(LogDamaged):
            codec.unpack(pa.array([wrong], pa.binary()))


@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_string(), pa.list_(pa.string()), pa.map_(pa.string(), pa.string())]
)
def test_a_string_that_is_no_utf8_is_no_damage(type: pa.DataType) -> None:
    """Spark's strings are bytes: any bytes are restored, alone and nested."""
    made: list[Any] = [*NOT_UTF8]
    if pa.types.is_nested(type):
        made = [[(each, each)] if pa.types.is_map(type) else [each, b""] for each in NOT_UTF8]
    batch = pa.record_batch([column(type, made)], schema=pa.schema([("c", type)]))
    codec = RowCodec(batch.schema, canonical=False)
    assert values(codec.unpack(codec.pack(batch)).column("c")) == made


def _other_form(type: pa.DataType, nullable: bool) -> pa.DataType:
    """The type as another plan or session of Spark has it: strings with wide offsets, nullable or non-nullable fields."""
    if pa.types.is_string(type):
        return pa.large_string()
    if pa.types.is_struct(type):
        fields = [(each.name, _other_form(each.type, not nullable)) for each in type]
        return pa.struct([pa.field(name, kind, nullable or pa.types.is_null(kind)) for name, kind in fields])
    if pa.types.is_map(type):
        return pa.map_(_other_form(type.key_type, nullable), _other_form(type.item_type, nullable))
    if pa.types.is_list(type):
        may_be_null = nullable or pa.types.is_null(type.value_type)
        return pa.list_(pa.field("element", _other_form(type.value_type, nullable), may_be_null))
    return type


@given(batches(), st.booleans())
def test_another_form_of_a_type_keeps_every_value(batch: pa.RecordBatch, nullable: bool) -> None:
    """The conversion is reversible at any depth: nulls are kept, including those of structs whose fields are declared never null."""
    for each in batch.columns:
        other = of_type(each, _other_form(each.type, nullable))
        other.validate()
        assert other.type == _other_form(each.type, nullable)
        back = of_type(other, each.type)
        assert back.type == each.type
        assert [_exact(value) for value in values(back)] == [_exact(value) for value in values(each)]


def test_fields_of_other_names_are_found_by_them() -> None:
    """A struct that a user's function made may have its fields in another order."""
    made = pa.array([{"b": 1, "a": "x"}])
    assert of_type(made, pa.struct([("a", pa.string()), ("b", pa.int64())])).to_pylist() == [{"a": "x", "b": 1}]


def test_null_slots_are_zeros_whatever_lies_under_them() -> None:
    """Two nulls pack to the same bytes even if Arrow's buffers hold other values under them."""
    codec = RowCodec(pa.schema([("c", pa.int64())]))
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\0"), pa.py_buffer(np.array([5, 6]).tobytes())])
    packed = codec.pack(pa.record_batch([hidden], schema=codec.schema))
    assert packed[0] == packed[1]


@pytest.mark.parametrize("type", [pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.list_(pa.string_view())])
def test_types_without_a_packed_form_are_refused_by_name(type: pa.DataType) -> None:
    """A type whose bytes are not its value raises Unsupported with the column's name."""
    with pytest.raises(Unsupported, match=r"clicks|element"):
        RowCodec(pa.schema([("clicks", type)]))


def test_fingerprint_distinguishes_schemas() -> None:
    """Names, order, types and time zones count; metadata and nullability do not."""
    base = pa.schema([("a", pa.int64()), ("b", pa.timestamp("us", "UTC"))])
    same = pa.schema([pa.field("a", pa.int64(), nullable=False), base.field("b")], metadata={"k": "v"})
    others = [
        pa.schema([base.field("b"), base.field("a")]),
        pa.schema([("a", pa.int32()), base.field("b")]),
        pa.schema([("x", pa.int64()), base.field("b")]),
        pa.schema([base.field("a"), ("b", pa.timestamp("us"))]),
    ]
    prints = [RowCodec(schema).fingerprint for schema in (base, *others)]
    assert len(set(prints)) == len(prints)
    assert RowCodec(same).fingerprint == prints[0]


@given(st.lists(st.binary(max_size=5) | st.none(), max_size=6), st.integers(0, 3))
@example([None, b"", b"x"], 1)
def test_joined_columns_equal_python_concatenation(values: list[bytes | None], start: int) -> None:
    """join() is concatenation row by row, null as empty, for slices too."""
    column = pa.array(values, pa.binary())[start:]
    joined = binary.join([column, column, column])
    assert [(value or b"") * 3 for value in values[start:]] == joined.to_pylist()
