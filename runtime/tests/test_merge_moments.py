"""Merged moments and co-moments equal those of all values together, computed by the definition."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from merge_model import finite, run

from binshift.operators.merge import Merge, MergeSpec


def moments_of(values: list[float]) -> tuple[float, ...]:
    if not values:
        return (0.0,) * 5
    mean = math.fsum(values) / len(values)
    return (float(len(values)), mean, *(math.fsum((v - mean) ** power for v in values) for power in (2, 3, 4)))


@given(st.lists(st.tuples(st.lists(finite, max_size=5), st.lists(finite, max_size=5)), max_size=6))
def test_moments_of_the_parts_give_the_moments_of_the_whole(rows: list[Any]) -> None:
    """Merged n, mean, m2, m3 and m4 are those of all values together, up to rounding."""
    names = ("n", "avg", "m2", "m3", "m4")
    old, new = [moments_of(a) if a else (None,) * 5 for a, _ in rows], [moments_of(b) for _, b in rows]
    for (left, right), found in zip(
        rows, run(MergeSpec(Merge.MOMENTS, names), [pa.float64()] * 5, old, new), strict=True
    ):
        scale = max((abs(v) for v in left + right), default=0.0)
        for power, (got, wanted) in enumerate(zip(found, moments_of(left + right), strict=True)):
            assert math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9 * max(scale, 1e-300) ** max(power, 1) * 10)


def comoments_of(values: list[tuple[float, float]]) -> tuple[float, ...]:
    if not values:
        return (0.0,) * 6
    x, y = (math.fsum(v[i] for v in values) / len(values) for i in (0, 1))
    ck, xx, yy = (
        math.fsum((v[i] - (x, y)[i]) * (v[j] - (x, y)[j]) for v in values) for i, j in ((0, 1), (0, 0), (1, 1))
    )
    return (float(len(values)), x, y, ck, xx, yy)


points = st.lists(st.tuples(finite, finite), max_size=5)


@given(st.lists(st.tuples(points, points), max_size=6))
def test_comoments_of_the_parts_give_those_of_the_whole(rows: list[Any]) -> None:
    """Merged co-moments, with and without the two variances, are those of all points together, up to rounding."""
    names = ("n", "x", "y", "ck", "xx", "yy")
    for width in (4, 6):
        spec = MergeSpec(Merge.COMOMENTS, names[:width])
        old = [(comoments_of(a) if a else (None,) * 6)[:width] for a, _ in rows]
        found = run(spec, [pa.float64()] * width, old, [comoments_of(b)[:width] for _, b in rows])
        for (left, right), row in zip(rows, found, strict=True):
            scale = max((abs(v) for point in left + right for v in point), default=0.0)
            for got, wanted in zip(row, comoments_of(left + right), strict=False):
                assert math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-8 * max(scale, scale**2, 1e-300))


def test_moments_of_one_side_pass_through_bit_by_bit() -> None:
    """An empty side changes nothing, not even the last bit."""
    seen = (3.0, 0.1, 0.2, 0.30000000000000004, 1e-17)
    spec = MergeSpec(Merge.MOMENTS, ("n", "avg", "m2", "m3", "m4"))
    assert run(spec, [pa.float64()] * 5, [(None,) * 5, seen], [seen, (0.0,) * 5]) == [seen, seen]
