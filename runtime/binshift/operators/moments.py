"""Merges central moments: the buffers of variance, deviation, skewness, kurtosis, covariance and correlation.

This module owns the pairwise update formulas that Spark's CentralMomentAgg, Covariance and PearsonCorrelation use
(Chan et al. for the variance, Pébay 2008 for the higher orders), on NumPy arrays. It must never go through sums of
squares, which lose all digits for values far from zero. A side without values leaves the other one unchanged, bit by
bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Doubles = npt.NDArray[np.float64]


def merge_moments(old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
    """Columns n, mean, m2[, m3[, m4]] of both sides merged; null is zero."""
    left, right = _doubles(old), _doubles(new)
    with np.errstate(all="ignore"):
        merged = _moments(left, right)
    return _keep_single_sided(left, right, merged)


def merge_comoments(old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
    """Columns n, mean of x, mean of y, ck[, xMk, yMk] of both sides merged; null is zero."""
    left, right = _doubles(old), _doubles(new)
    with np.errstate(all="ignore"):
        merged = _comoments(left, right)
    return _keep_single_sided(left, right, merged)


def _moments(left: list[Doubles], right: list[Doubles]) -> list[Doubles]:
    (n1, mean1, m2l), (n2, mean2, m2r) = left[:3], right[:3]
    n = n1 + n2
    delta = mean2 - mean1
    delta_n = np.where(n == 0, 0.0, delta / n)
    merged = [n, mean1 + delta_n * n2, m2l + m2r + delta * delta_n * n1 * n2]
    if len(left) > 3:
        m3 = left[3] + right[3] + delta_n * delta_n * delta * n1 * n2 * (n1 - n2)
        merged.append(m3 + 3.0 * delta_n * (n1 * m2r - n2 * m2l))
    if len(left) > 4:
        m4 = left[4] + right[4] + delta_n**3 * delta * n1 * n2 * (n1 * n1 - n1 * n2 + n2 * n2)
        m4 += 6.0 * delta_n * delta_n * (n1 * n1 * m2r + n2 * n2 * m2l)
        merged.append(m4 + 4.0 * delta_n * (n1 * right[3] - n2 * left[3]))
    return merged


def _comoments(left: list[Doubles], right: list[Doubles]) -> list[Doubles]:
    (n1, x1, y1, ckl), (n2, x2, y2, ckr) = left[:4], right[:4]
    n = n1 + n2
    dx, dy = x2 - x1, y2 - y1
    dx_n, dy_n = np.where(n == 0, 0.0, dx / n), np.where(n == 0, 0.0, dy / n)
    merged = [n, x1 + dx_n * n2, y1 + dy_n * n2, ckl + ckr + dx * dy_n * n1 * n2]
    if len(left) > 4:
        merged += [left[4] + right[4] + dx * dx_n * n1 * n2, left[5] + right[5] + dy * dy_n * n1 * n2]
    return merged


def _doubles(columns: list[pa.Array]) -> list[Doubles]:
    return [pc.fill_null(column, 0.0).to_numpy() for column in columns]


def _keep_single_sided(left: list[Doubles], right: list[Doubles], merged: list[Doubles]) -> list[pa.Array]:
    only_left, only_right = right[0] == 0, left[0] == 0
    return [
        pa.array(np.where(only_left, a, np.where(only_right, b, both)))
        for a, b, both in zip(left, right, merged, strict=True)
    ]
