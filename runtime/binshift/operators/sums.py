"""Adds stored and new sums and counts, with Spark's three ways to handle an overflow.

This module owns addition for every type that Spark sums: bigint, double, decimal, day-time interval. It must never
lose an overflow: integers are checked or wrap, decimals are added in 256 bits and compared with their precision.
A *counted* sum has the count of its values, so that "null because nothing was added" and "null because it overflowed" are
distinguished, as with the `isEmpty` buffer of Spark's own Sum.
"""

from __future__ import annotations

import enum
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift.errors import ArithmeticOverflow

DECIMAL_DIGITS_MAX = 38
"""Digits of the widest decimal Spark has; the sum of two of them fits 256 bits."""

BoolArray = npt.NDArray[np.bool_]


class Overflow(enum.Enum):
    """What a result means that exceeds its type: Spark's ANSI, legacy and TRY modes."""

    ERROR = "error"
    WRAP = "wrap"
    NULL = "null"


def add_counts(old: pa.Array, new: pa.Array, label: str) -> pa.Array:
    """Counts added; absent is zero, the result is never null.

    Raises:
        ArithmeticOverflow: a count passes 2**63 - 1.
    """
    return add(pc.fill_null(old, 0), pc.fill_null(new, 0), Overflow.ERROR, label)


def add(old: pa.Array, new: pa.Array, overflow: Overflow, label: str) -> pa.Array:
    """Sums added, nulls skipped.

    Raises:
        ArithmeticOverflow: a sum exceeds its type and ``overflow`` is ERROR.
    """
    total, too_large = _add(old, new)
    if too_large.any() and overflow is Overflow.ERROR:
        raise _overflow(old, new, int(too_large.argmax()), label)
    merged = pc.coalesce(total, old, new)
    if overflow is Overflow.NULL:
        return pc.if_else(pa.array(too_large), pa.scalar(None, merged.type), merged)
    return merged


def add_counted(old: list[pa.Array], new: list[pa.Array], overflow: Overflow, label: str) -> list[pa.Array]:
    """(sum, count) pairs added. A null sum with a count above zero overflowed earlier, and stays null.

    Raises:
        ArithmeticOverflow: as `add`.
    """
    lost = pc.or_(_overflowed(*old), _overflowed(*new))
    total = add(old[0], new[0], Overflow.NULL if overflow is Overflow.WRAP else overflow, label)
    counts = add_counts(old[1], new[1], label)
    return [pc.if_else(lost, pa.scalar(None, total.type), total), counts]


def _overflowed(sums: pa.Array, counts: pa.Array) -> pa.BooleanArray:
    return pc.and_(sums.is_null(), pc.fill_null(pc.greater(counts, 0), False))


def _add(old: pa.Array, new: pa.Array) -> tuple[pa.Array, BoolArray]:
    """The sum where both are present (else null), and where it does not fit its type."""
    if pa.types.is_decimal(old.type):
        return _add_decimals(old, new)
    if pa.types.is_floating(old.type):
        return pc.add(old, new), np.zeros(len(old), dtype=np.bool_)
    left, right = old.cast(pa.int64()), new.cast(pa.int64())
    total = pc.add(left, right)
    a, b, c = (pc.fill_null(column, 0).to_numpy() for column in (left, right, total))
    return total.cast(old.type), ((a ^ c) & (b ^ c)) < 0


def _add_decimals(old: pa.Array, new: pa.Array) -> tuple[pa.Array, BoolArray]:
    precision, scale = old.type.precision, old.type.scale
    wide = pa.decimal256(DECIMAL_DIGITS_MAX, scale)
    total = pc.add(old.cast(wide), new.cast(wide))
    bound = pa.scalar(Decimal((0, (1,), precision - scale)), pa.decimal256(total.type.precision, scale))
    too_large = pc.fill_null(pc.greater_equal(pc.abs(total), bound), False)
    kept = pc.if_else(too_large, pa.scalar(None, total.type), total)
    return kept.cast(old.type), too_large.to_numpy(zero_copy_only=False)


def _overflow(old: pa.Array, new: pa.Array, row: int, label: str) -> ArithmeticOverflow:
    return ArithmeticOverflow(
        f"[ARITHMETIC_OVERFLOW] {label or 'a sum'}: {old[row].as_py()} + {new[row].as_py()} does not fit {old.type}. Cast the column to a wider "
        "type, or use try_sum / try_avg (null instead), or set spark.sql.ansi.enabled=false. The state is unchanged."
    )
