"""The pairs of a join: which rows of the left and the right side belong together, found in batches of bounded size.

This module has the arithmetic of `binshift.operators.join`, without state. Each row is *new*, that is, of this epoch, or
*stored*. Two rows are a pair if their keys are equal and at least one of them is new; it also matches if all comparisons hold.

It must never hold all pairs of a group at once: a key with a thousand rows on each side has a million pairs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.binary import BoolArray
from binshift.errors import Unsupported
from binshift.operators.session_rows import Int64s

LEFT: Final = 0
RIGHT: Final = 1

_OPERATORS: Final[dict[str, Callable[[pa.Array, pa.Array], pa.BooleanArray]]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "==": pc.equal,
    "!=": pc.not_equal,
}


class JoinType(enum.Enum):
    """Spark's types of stream-stream joins."""

    INNER = "inner"
    LEFT_OUTER = "left outer"
    RIGHT_OUTER = "right outer"
    FULL_OUTER = "full outer"
    LEFT_SEMI = "left semi"

    def is_outer(self, side: int) -> bool:
        """Whether rows of a side come out without a match."""
        return self is JoinType.FULL_OUTER or self is (JoinType.RIGHT_OUTER if side else JoinType.LEFT_OUTER)


@dataclass(frozen=True)
class Comparison:
    """A condition on pairs: the values of two columns compare in this way; it does not hold if one of them is null.

    Values compare as in Spark: NaN equals NaN and is greater than every other number.

    Attributes:
        left: a column of the left side.
        operator: one of ``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``.
        right: a column of the right side, of the same type.
    """

    left: str
    operator: str
    right: str

    def check(self, left: pa.Schema, right: pa.Schema) -> None:
        """Refuse a comparison that these columns do not have.

        Raises:
            Unsupported: an operator or a type that cannot be compared.
        """
        types = left.field(self.left).type, right.field(self.right).type
        if self.operator not in _OPERATORS or types[0] != types[1] or pa.types.is_nested(types[0]):
            raise Unsupported(
                f"a join cannot compare columns of the types {types[0]} and {types[1]} by {self.operator!r}; cast both to "
                "the same type, which is not an array, map or struct"
            )


@dataclass(frozen=True)
class Candidates:
    """The rows of one side that can be in pairs, in any order; of one key, stored rows come before new ones.

    Attributes:
        key: the number of each row's key.
        new: whether it is of this epoch.
        columns: the side's columns.
    """

    key: Int64s
    new: BoolArray
    columns: pa.RecordBatch


@dataclass
class Survivors:
    """Of the pairs of a group of rows, numbered in their order, the ones for which a condition holds.

    Attributes:
        numbers: theirs, ascending.
        seen: pairs that `among` was called with.
    """

    numbers: Int64s
    seen: int = 0

    def among(self, next: tuple[Int64s, Int64s]) -> tuple[Int64s, Int64s]:
        """Those of the next pairs."""
        first, self.seen = self.seen, self.seen + len(next[LEFT])
        low, high = np.searchsorted(self.numbers, [first, self.seen]).tolist()
        at = self.numbers[low:high] - first
        return next[LEFT][at], next[RIGHT][at]


def partners(left: Candidates, right: Candidates, keys: int) -> tuple[Int64s, Int64s]:
    """For each row of the left side, sorted by key: the position of its first partner on the sorted right, and their number."""
    all_of, stored_of = (np.bincount(found, minlength=keys) for found in (right.key, right.key[~right.new]))
    order = np.argsort(left.key, kind="stable")
    key = left.key[order]
    skipped = np.where(left.new[order], 0, stored_of[key])
    return (np.cumsum(all_of) - all_of)[key] + skipped, all_of[key] - skipped


def pairs(
    left: Candidates, right: Candidates, keys: int, comparisons: Sequence[Comparison], rows_max: int
) -> Iterator[tuple[Int64s, Int64s]]:
    """All pairs that match, as rows of both sides, by key, left row and right row; at most ``rows_max`` at a time."""
    start, count = partners(left, right, keys)
    ends = np.cumsum(count)
    orders = [np.argsort(side.key, kind="stable") for side in (left, right)]
    compared = [
        (_OPERATORS[each.operator], _comparable(left.columns[each.left]), _comparable(right.columns[each.right]))
        for each in comparisons
    ]
    total = int(ends[-1]) if len(ends) else 0
    for begin in range(0, total, rows_max):
        stop = min(begin + rows_max, total)
        first, last = np.searchsorted(ends, [begin, stop - 1], side="right")
        some = slice(int(first), int(last) + 1)
        here = np.minimum(ends[some], stop) - np.maximum(ends[some] - count[some], begin)
        row = np.repeat(np.arange(some.start, some.stop), here)
        other = start[row] + np.arange(begin, stop) - (ends[row] - count[row])
        found = orders[LEFT][row], orders[RIGHT][other]
        for holds, lefts, rights in compared:
            fits = _fitting(holds(lefts.take(pa.array(found[LEFT])), rights.take(pa.array(found[RIGHT]))))
            found = found[LEFT][fits], found[RIGHT][fits]
        if len(found[LEFT]):
            yield found


def _fitting(found: pa.BooleanArray) -> BoolArray:
    """Where a comparison holds."""
    fits: BoolArray = found.fill_null(False).to_numpy(zero_copy_only=False)
    return fits


def _comparable(column: pa.Array) -> pa.Array:
    """Values that Arrow compares as Spark compares those of the column."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_binary())  # they need not be UTF-8
    if not pa.types.is_floating(column.type):
        return column
    # The bits of a number, negative ones reversed, sort by value; the only NaN comes last.
    numbers: Any = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)
    ordered = bits ^ ((bits >> 63) & np.int64(np.iinfo(np.int64).max))
    return pa.array(ordered, mask=column.is_null().to_numpy(zero_copy_only=False))
