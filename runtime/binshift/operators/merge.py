"""Merges the buffers of an aggregation, one row per key, with the stored ones: Spark's rules, vectorised.

This module owns `MergeSpec`, the small picklable description of the buffers that is sent to the tasks, and `merge`.
Every rule mirrors the `mergeExpressions` of its Spark aggregate: nulls are skipped, NaN is the greatest float, -0.0 equals
0.0, strings and binaries compare as unsigned bytes, and an overflow is an error (ANSI), wraps, or makes the result null
(`try_sum`, decimals without ANSI). A key without state has null in every old column; each rule treats that as
"nothing seen".

It must never process rows one at a time, depend on Spark, or change its arguments. Floating-point sums depend on the order
in which they are added, here as in Spark: the last bits may differ between two groupings of the same rows. An intermediate
overflow depends on it as well.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.invariants import invariant
from binshift.operators import collected, moments, sums
from binshift.operators.sums import Overflow
from binshift.rows import of_type

__all__ = ["Merge", "MergeSpec", "Overflow", "merge"]


class Merge(enum.Enum):
    """The rules. Each comment lists the rule's columns, in this order."""

    COUNT = "count"  # bigint, never null
    SUM = "sum"  # bigint, double or interval
    COUNTED_SUM = "counted sum"  # sum, bigint count of summed values: a null sum with a count is an overflow
    PRODUCT = "product"  # double
    MIN = "min"
    MAX = "max"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    FIRST = "first"  # value, boolean: whether a value exists. The earlier epoch's wins
    LAST = "last"  # value, boolean: whether a value exists. The later epoch's wins
    MIN_BY = "min_by"  # value, its ordering. Of equal orderings, the later epoch's wins, as in Spark
    MAX_BY = "max_by"
    MOMENTS = "moments"  # n, mean, m2[, m3[, m4]]: central moments, as doubles
    COMOMENTS = "comoments"  # n, mean of x, mean of y, ck[, xMk, yMk], as doubles
    CONCAT = "concat"  # list: the stored elements, then the new ones
    REPLACE = "replace"  # binary: a buffer that Spark has merged with the stored one
    UNION = "union"  # list without duplicates: the stored elements, then those new ones that it lacks


_BUFFER_NAMES = {
    Merge.COUNTED_SUM: ("sum", "count"),
    Merge.BIT_AND: ("bitAnd",),
    Merge.BIT_OR: ("bitOr",),
    Merge.BIT_XOR: ("bitXor",),
    Merge.FIRST: ("first", "valueSet"),
    Merge.LAST: ("last", "valueSet"),
    Merge.MIN_BY: ("valueWithExtremumOrdering", "extremumOrdering"),
    Merge.MAX_BY: ("valueWithExtremumOrdering", "extremumOrdering"),
    Merge.MOMENTS: ("n", "avg", "m2", "m3", "m4"),
    Merge.COMOMENTS: ("n", "xAvg", "yAvg", "ck", "xMk", "yMk"),
    Merge.CONCAT: ("buf",),
    Merge.REPLACE: ("buf",),
    Merge.UNION: ("buf",),
}


def buffer_names(rule: Merge, columns: int) -> tuple[str, ...]:
    """Spark's names of the buffers that a rule of so many columns merges.

    >>> buffer_names(Merge.MOMENTS, 3), buffer_names(Merge.MAX, 1)
    (('n', 'avg', 'm2'), ('max',))
    """
    return _BUFFER_NAMES.get(rule, (rule.value,))[:columns]


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """One rule and the buffer columns it merges.

    Attributes:
        merge: the rule.
        columns: the names of its buffer columns, in the rule's order; no column belongs to two specs.
        overflow: what a result means that exceeds its type.
        label: the user's expression, for error messages.
    """

    merge: Merge
    columns: tuple[str, ...]
    overflow: Overflow = Overflow.ERROR
    label: str = ""


def merge(specs: Sequence[MergeSpec], old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    """Row by row, the stored buffers merged with the epoch's.

    Args:
        specs: one or more rules that together cover every column of ``old``, each once.
        old: the stored buffers; all null where a key has no state.
        new: this epoch's buffers of the same keys in the same order; columns of another Arrow type are cast.

    Returns:
        The merged buffers in the schema of ``old``.

    Raises:
        ArithmeticOverflow: a sum or count exceeds its type, and its spec has `Overflow.ERROR`.
        InvariantViolated: the batches do not fit each other or the specs.
    """
    invariant(old.num_rows == new.num_rows, f"merging {new.num_rows} rows into {old.num_rows}")
    covered = [name for spec in specs for name in spec.columns]
    invariant(sorted(covered) == sorted(old.schema.names), f"rules for {covered} and columns {old.schema.names}")
    merged: dict[str, pa.Array] = {}
    for spec in specs:
        before = [old.column(name) for name in spec.columns]
        after = [of_type(new.column(name), old.schema.field(name).type) for name in spec.columns]
        merged.update(zip(spec.columns, _merge_one(spec, before, after), strict=True))
    return pa.RecordBatch.from_arrays([merged[name] for name in old.schema.names], schema=old.schema)


def _merge_one(spec: MergeSpec, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
    match spec.merge:
        case Merge.COUNT:
            return [sums.add_counts(old[0], new[0], spec.label)]
        case Merge.SUM:
            return [sums.add(old[0], new[0], spec.overflow, spec.label)]
        case Merge.COUNTED_SUM:
            return sums.add_counted(old, new, spec.overflow, spec.label)
        case Merge.PRODUCT:
            return [_skip_nulls(pc.multiply, old[0], new[0])]
        case Merge.MIN:
            return [choose(_precedes(new[0], old[0]), new[0], old[0])]
        case Merge.MAX:
            return [choose(_follows(new[0], old[0]), new[0], old[0])]
        case Merge.BIT_AND:
            return [_skip_nulls(pc.bit_wise_and, old[0], new[0])]
        case Merge.BIT_OR:
            return [_skip_nulls(pc.bit_wise_or, old[0], new[0])]
        case Merge.BIT_XOR:
            return [_skip_nulls(pc.bit_wise_xor, old[0], new[0])]
        case Merge.FIRST | Merge.LAST:
            return _first_or_last(spec.merge, old, new)
        case Merge.MIN_BY:
            wins = pc.or_(_precedes(new[1], old[1]), _same(new[1], old[1]))
            return [choose(wins, after, before) for before, after in zip(old, new, strict=True)]
        case Merge.MAX_BY:
            wins = pc.or_(_follows(new[1], old[1]), _same(new[1], old[1]))
            return [choose(wins, after, before) for before, after in zip(old, new, strict=True)]
        case Merge.MOMENTS:
            return moments.merge_moments(old, new)
        case Merge.COMOMENTS:
            return moments.merge_comoments(old, new)
        case Merge.CONCAT:
            return [collected.concat(old[0], new[0])]
        case Merge.REPLACE:
            return [pc.coalesce(new[0], old[0])]
        case Merge.UNION:
            return [collected.union(old[0], new[0])]
        case _:
            assert_never(spec.merge)


def choose(take_new: pa.BooleanArray, new: pa.Array, old: pa.Array) -> pa.Array:
    """``new`` where ``take_new`` is true, else ``old``; for columns of any type, nested ones included."""
    if not pa.types.is_nested(old.type):
        return pc.if_else(take_new, new, old)
    rows = np.arange(len(old))
    picked = np.where(take_new.to_numpy(zero_copy_only=False), rows + len(old), rows)
    return pa.concat_arrays([old, new]).take(pa.array(picked))


def _skip_nulls(operation: Callable[[pa.Array, pa.Array], pa.Array], old: pa.Array, new: pa.Array) -> pa.Array:
    return pc.coalesce(operation(old, new), old, new)


def _first_or_last(rule: Merge, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
    old_set, new_set = pc.fill_null(old[1], False), pc.fill_null(new[1], False)
    take_new = pc.invert(old_set) if rule is Merge.FIRST else new_set
    return [choose(take_new, new[0], old[0]), pc.or_(old_set, new_set)]


def _precedes(new: pa.Array, old: pa.Array) -> pa.BooleanArray:
    """Where ``new`` is present and less than ``old`` in Spark's order, or ``old`` is absent."""
    less = pc.less(new, old)
    if pa.types.is_floating(old.type):
        less = pc.or_(less, pc.and_not(pc.is_nan(old), pc.is_nan(new)))
    return _or_old_is_absent(less, new, old)


def _follows(new: pa.Array, old: pa.Array) -> pa.BooleanArray:
    """Where ``new`` is present and greater than ``old`` in Spark's order, or ``old`` is absent."""
    greater = pc.greater(new, old)
    if pa.types.is_floating(old.type):
        greater = pc.or_(greater, pc.and_not(pc.is_nan(new), pc.is_nan(old)))
    return _or_old_is_absent(greater, new, old)


def _or_old_is_absent(wins: pa.BooleanArray, new: pa.Array, old: pa.Array) -> pa.BooleanArray:
    """Where ``wins``, or only ``new`` is present; never null."""
    if not wins.null_count:
        return wins  # both are present everywhere
    return pc.or_(pc.fill_null(wins, False), pc.and_(new.is_valid(), old.is_null()))


def _same(new: pa.Array, old: pa.Array) -> pa.BooleanArray:
    """Where both are present and equal in Spark's order."""
    same = pc.equal(new, old)
    if pa.types.is_floating(old.type):
        same = pc.or_(same, pc.and_(pc.is_nan(new), pc.is_nan(old)))
    return pc.fill_null(same, False)
