"""`merge` against a slow, simple model of each rule, one row at a time, over random buffers."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import spark_strings
from hypothesis import given
from hypothesis import strategies as st
from merge_model import (
    EXACT,
    LONG_MAX,
    ORDERED,
    WIDE,
    WIDE_MAX,
    WIDE_MIN,
    check,
    counts,
    decimals,
    floats,
    longs,
    pairs,
    run,
    same,
    skipping,
    spark_less,
    texts,
)

from binshift.errors import ArithmeticOverflow
from binshift.invariants import InvariantViolated
from binshift.operators.merge import Merge, MergeSpec, Overflow, merge


@given(pairs(counts))
def test_counts_add_and_absent_is_zero(rows: list[Any]) -> None:
    """A count is the sum of both counts and never null."""
    check(MergeSpec(Merge.COUNT, ("c",)), [pa.int64()], rows, lambda old, new: ((old[0] or 0) + new[0],))


@given(pairs(longs | st.none()))
def test_long_sums_wrap_as_java_does_without_ansi(rows: list[Any]) -> None:
    """Sums of bigint skip nulls and wrap around modulo 2**64."""
    check(
        MergeSpec(Merge.SUM, ("s",), Overflow.WRAP),
        [pa.int64()],
        rows,
        skipping(lambda a, b: (a + b + 2**63) % 2**64 - 2**63),
    )


@given(pairs(longs | st.none()))
def test_long_sums_raise_under_ansi_exactly_when_they_overflow(rows: list[Any]) -> None:
    """Under ANSI, the error is raised if and only if some row does not fit, and names the aggregate and the values."""
    spec = MergeSpec(Merge.SUM, ("s",), Overflow.ERROR, "sum(amount)")
    overflowing = [r for r in rows if None not in (r[0][0], r[1][0]) and not -(2**63) <= r[0][0] + r[1][0] <= LONG_MAX]
    if overflowing:
        with pytest.raises(ArithmeticOverflow, match=r"sum\(amount\): ") as raised:
            check(spec, [pa.int64()], rows, skipping(lambda a, b: a + b))
        assert str(overflowing[0][0][0]) in str(raised.value)
    else:
        check(spec, [pa.int64()], rows, skipping(lambda a, b: a + b))


@given(pairs(floats | st.none()))
def test_double_sums_skip_nulls_and_keep_nan(rows: list[Any]) -> None:
    """Sums of double are IEEE sums."""
    check(MergeSpec(Merge.SUM, ("s",)), [pa.float64()], rows, skipping(lambda a, b: a + b))


def counted(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    count = (old[1] or 0) + new[1]
    if any(side[0] is None and side[1] for side in (old, new)):
        return (None, count)
    present = [side[0] for side in (old, new) if side[0] is not None]
    total = functools.reduce(EXACT.add, present) if present else None
    return (total if total is not None and WIDE_MIN <= total <= WIDE_MAX else None, count)


@given(pairs(decimals | st.none(), counts))
def test_decimal_sums_become_null_for_good_when_they_overflow(rows: list[Any]) -> None:
    """Without ANSI an overflowed decimal sum is null and remains null: a null with a count is not 'nothing seen'."""
    check(MergeSpec(Merge.COUNTED_SUM, ("s", "n"), Overflow.NULL), [WIDE, pa.int64()], rows, counted)


def test_decimal_sums_raise_under_ansi() -> None:
    """A sum of 39 digits is an error under ANSI, not a rounded or truncated number."""
    spec = MergeSpec(Merge.COUNTED_SUM, ("s", "n"), Overflow.ERROR)
    with pytest.raises(ArithmeticOverflow, match="does not fit decimal128"):
        run(spec, [WIDE, pa.int64()], [(WIDE_MAX, 1)], [(Decimal("0.01"), 1)])
    assert run(spec, [WIDE, pa.int64()], [(WIDE_MAX, 1)], [(Decimal("-0.01"), 1)])[0][1] == 2


@pytest.mark.parametrize(("type", "values"), ORDERED, ids=[str(type) for type, _ in ORDERED])
def test_min_and_max_follow_sparks_order(type: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    """NaN is the greatest, strings and binaries compare as unsigned bytes, nulls are skipped."""

    @given(pairs(values | st.none()))
    def holds(rows: list[Any]) -> None:
        check(MergeSpec(Merge.MIN, ("m",)), [type], rows, skipping(lambda a, b: b if spark_less(b, a) else a))
        check(MergeSpec(Merge.MAX, ("m",)), [type], rows, skipping(lambda a, b: b if spark_less(a, b) else a))

    holds()


@given(pairs(st.integers(-128, 127) | st.none()))
def test_bit_operations_skip_nulls(rows: list[Any]) -> None:
    """bit_and, bit_or and bit_xor of small integers skip nulls."""
    for rule, operation in (
        (Merge.BIT_AND, lambda a, b: a & b),
        (Merge.BIT_OR, lambda a, b: a | b),
        (Merge.BIT_XOR, lambda a, b: a ^ b),
    ):
        check(MergeSpec(rule, ("b",)), [pa.int8()], rows, skipping(operation))


NESTED = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
nested = st.fixed_dictionaries({"a": st.none() | longs, "b": st.none() | st.lists(texts, max_size=2)})


@pytest.mark.parametrize(("type", "values"), [(pa.string(), texts), (NESTED, nested)], ids=["string", "nested"])
def test_first_and_last_go_by_epochs(type: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    """The earliest and the latest epoch with a row win, even if its value is null; for any type."""

    @given(pairs(values | st.none(), st.booleans()))
    def holds(rows: list[Any]) -> None:
        check(
            MergeSpec(Merge.FIRST, ("v", "s")),
            [type, pa.bool_()],
            rows,
            lambda old, new: (old[0] if old[1] else new[0], bool(old[1] or new[1])),
        )
        check(
            MergeSpec(Merge.LAST, ("v", "s")),
            [type, pa.bool_()],
            rows,
            lambda old, new: (new[0] if new[1] else old[0], bool(old[1] or new[1])),
        )

    holds()


@given(pairs(nested, floats | st.none()))
def test_min_by_and_max_by_keep_the_later_of_equals(rows: list[Any]) -> None:
    """The value belongs to the extreme ordering; of equal orderings the later epoch's wins; null orderings lose."""

    def by(better: Callable[[Any, Any], bool]) -> Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]:
        def merged(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
            if new[1] is None:
                return old
            return old if old[1] is not None and better(old[1], new[1]) else new

        return merged

    types = [NESTED, pa.float64()]
    rows = [(old, new) for old, new in rows if new[1] is not None or old[1] is not None]
    check(MergeSpec(Merge.MIN_BY, ("v", "o")), types, rows, by(spark_less))
    check(MergeSpec(Merge.MAX_BY, ("v", "o")), types, rows, by(lambda a, b: spark_less(b, a)))


elements = st.lists(texts | st.sampled_from([b"a", b"b"]), max_size=4)


@given(pairs(elements))
def test_lists_are_appended(rows: list[Any]) -> None:
    """collect_list has the stored elements, then the new ones, and is never null."""
    check(MergeSpec(Merge.CONCAT, ("l",)), [pa.list_(pa.string())], rows, lambda old, new: ((old[0] or []) + new[0],))


@given(pairs(st.lists(st.integers(0, 3) | st.sampled_from([math.nan, -0.0, 0.0]).map(float), max_size=5)))
def test_sets_keep_the_first_of_equal_elements(rows: list[Any]) -> None:
    """collect_set has no duplicates, NaN equals NaN, -0.0 equals 0.0, in the order of first occurrence."""
    found = run(
        MergeSpec(Merge.UNION, ("l",)),
        [pa.list_(pa.float64())],
        *map(list, zip(*rows, strict=True)) if rows else ([], []),
    )
    for (old, new), (merged,) in zip(rows, found, strict=True):
        wanted: list[float] = []
        for value in map(float, (old[0] or []) + new[0]):
            if not any(same(value, seen) for seen in wanted):
                wanted.append(value)
        assert len(merged) == len(wanted)
        assert all(same(a, b) for a, b in zip(merged, wanted, strict=True))


def test_sliced_lists_merge_as_whole_ones() -> None:
    """Batches that are slices of larger ones (offsets that do not start at zero) merge like copies of them."""
    batch = pa.record_batch({"l": pa.array([["x"], ["a", "b"], None, ["c"]])})
    spec = [MergeSpec(Merge.CONCAT, ("l",))]
    merged = merge(spec, batch.slice(1, 2), batch.slice(2, 2))
    assert merged.column(0).to_pylist() == [["a", "b"], ["c"]]


SPECS = (
    MergeSpec(Merge.COUNT, ("n",)),
    MergeSpec(Merge.SUM, ("s",), Overflow.WRAP),
    MergeSpec(Merge.MAX, ("m",)),
    MergeSpec(Merge.LAST, ("v", "set")),
)
SCHEMA = pa.schema([("s", pa.int64()), ("n", pa.int64()), ("v", pa.string()), ("set", pa.bool_()), ("m", pa.float64())])


@given(
    st.lists(
        st.lists(
            st.tuples(longs | st.none(), counts, texts | st.none(), st.booleans(), floats), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=5,
    )
)
def test_folding_epochs_is_associative(epochs: list[list[Any]]) -> None:
    """Merging epoch by epoch from nothing equals merging the epochs among themselves first."""
    batches = [
        pa.RecordBatch.from_arrays(
            [spark_strings.column(f.type, [r[i] for r in rows]) for i, f in enumerate(SCHEMA)], schema=SCHEMA
        )
        for rows in epochs
    ]
    absent = pa.RecordBatch.from_arrays([pa.nulls(3, f.type) for f in SCHEMA], schema=SCHEMA)
    stepwise = functools.reduce(lambda a, b: merge(SPECS, a, b), batches, absent)
    right_first = functools.reduce(lambda a, b: merge(SPECS, b, a), reversed(batches))
    columns = zip(stepwise.columns, merge(SPECS, absent, right_first).columns, strict=True)
    assert all(repr(spark_strings.values(a)) == repr(spark_strings.values(b)) for a, b in columns)


def test_specs_travel_by_pickle_and_narrow_types_are_cast() -> None:
    """The tasks get small, equal specs; timestamps of another zone are the same instants."""
    assert pickle.loads(pickle.dumps(SPECS)) == SPECS
    spec = [MergeSpec(Merge.MAX, ("t",))]
    old = pa.record_batch({"t": pa.array([5], pa.timestamp("us", "UTC"))})
    new = pa.record_batch({"t": pa.array([7], pa.timestamp("us", "Europe/Berlin"))})
    assert merge(spec, old, new).column(0).cast(pa.int64()).to_pylist() == [7]


def test_rules_must_cover_every_column_once() -> None:
    """A missing or duplicate column is a bug that must not reach the state."""
    batch = pa.record_batch({"a": [1], "b": [2]})
    for specs in ([MergeSpec(Merge.COUNT, ("a",))], [MergeSpec(Merge.COUNT, ("a",))] * 3):
        with pytest.raises(InvariantViolated, match="rules for"):
            merge(specs, batch, batch)
    with pytest.raises(InvariantViolated, match="merging 0 rows"):
        merge([MergeSpec(Merge.COUNT, ("a",))], batch.select(["a"]), batch.select(["a"]).slice(1))
