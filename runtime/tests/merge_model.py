"""The slow, simple model for the tests of `merge`: rows as tuples, Spark's order, and random buffers."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import spark_strings
from hypothesis import strategies as st

from binshift.operators.merge import MergeSpec, merge

LONG_MAX = 2**63 - 1
WIDE = pa.decimal128(38, 2)
WIDE_MAX = Decimal("9" * 36 + ".99")
WIDE_MIN = Decimal("-" + "9" * 36 + ".99")
EXACT = Context(prec=60)

longs = st.integers(-100, 100) | st.integers(-(2**63), LONG_MAX)
floats = st.floats(width=64) | st.sampled_from([0.0, -0.0, math.nan, math.inf])
finite = st.floats(-1e6, 1e6)
counts = st.integers(0, 5)
texts = spark_strings.texts(3)
decimals = st.decimals(Decimal(-1000), Decimal(1000), places=2) | st.sampled_from([WIDE_MAX, WIDE_MIN])
ORDERED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), longs),
    (pa.float64(), floats),
    (pa.string(), texts),
    (pa.binary(), st.binary(max_size=3)),
    (pa.bool_(), st.booleans()),
    (WIDE, decimals),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes().map(lambda t: t.replace(tzinfo=UTC))),
]


def run(spec: MergeSpec, types: list[pa.DataType], old: list[tuple[Any, ...]], new: list[tuple[Any, ...]]) -> list[Any]:
    """Merge rows given as tuples of the spec's columns; rows are returned as tuples."""
    schema = pa.schema(list(zip(spec.columns, types, strict=True)))
    batches = [
        pa.RecordBatch.from_arrays(
            [spark_strings.column(t, [row[i] for row in rows]) for i, t in enumerate(types)], schema=schema
        )
        for rows in (old, new)
    ]
    merged = merge([spec], *batches)
    assert merged.schema == schema
    return list(zip(*map(spark_strings.values, merged.columns), strict=True))


def pairs(*strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[tuple[Any, ...], tuple[Any, ...]]]]:
    """Rows of (old buffers, new buffers); an absent old row is all null."""
    row = st.tuples(*strategies)
    absent = st.just((None,) * len(strategies))
    return st.lists(st.tuples(absent | row, row), max_size=12)


def check(
    spec: MergeSpec,
    types: list[pa.DataType],
    rows: list[tuple[tuple[Any, ...], tuple[Any, ...]]],
    model: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]],
) -> None:
    found = run(spec, types, [old for old, _ in rows], [new for _, new in rows])
    assert len(found) == len(rows)
    for (old, new), row in zip(rows, found, strict=True):
        wanted = model(old, new)
        assert all(same(a, b) for a, b in zip(row, wanted, strict=True)), f"{old} with {new}: {row}, not {wanted}"


def same(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def spark_less(a: Any, b: Any) -> bool:
    """Spark's order of two values, neither of them null."""
    if isinstance(a, float) and math.isnan(a):
        return False
    if isinstance(b, float) and math.isnan(b):
        return True
    return bool(a < b)


def skipping(operation: Callable[[Any, Any], Any]) -> Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]:
    def merged(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
        if old[0] is None or new[0] is None:
            return (old[0] if new[0] is None else new[0],)
        return (operation(old[0], new[0]),)

    return merged
