"""The reference of `Join`: a list of rows and nested loops. Slow, and obviously correct.

It knows nothing of bins, chunks and packed bytes. Times are in milliseconds. `sent` makes the rows as F delivers them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from operator_histories import KEYS, Key, Row, bin_column, canonical, key_columns, store_order
from spark_strings import column

from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState
from binshift.operators.join import (
    EXPIRY_COLUMN,
    LATE_COLUMN,
    MATCHES_COLUMN,
    SIDE_COLUMN,
    Comparison,
    Join,
    JoinType,
)
from binshift.operators.join_condition import PAIR_COLUMN, ConditionedJoin, FindPairs

SIDES = (
    pa.schema([("l0", pa.int64()), ("l1", pa.string()), ("l2", pa.float64()), ("l3", pa.string())]),
    pa.schema([("r0", pa.int64()), ("r1", pa.list_(pa.string())), ("r2", pa.float64()), ("r3", pa.string())]),
)
"""The columns of both sides: a number, something of any length, and two columns that can be compared."""

_OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Sent:
    """A row of a history.

    Attributes:
        side: 0 is the left one.
        key: its key.
        late: the time by which it can be late, or None.
        expiry: when it leaves, or None.
        matches: whether it fulfils the conditions on its own side.
        row: the values of its side.
    """

    side: int
    key: Key
    late: int | None
    expiry: int | None
    matches: bool
    row: Row


def join(type: JoinType, comparisons: Sequence[Comparison] = (), **limits: int) -> Join:
    """A join of `SIDES`, whose last column on each side is not in the output."""
    return Join(KEYS, *SIDES, type, (3, 3), tuple(comparisons), **limits)


def sent(rows: Sequence[Sent]) -> pa.RecordBatch:
    """The rows as F delivers them: by bin, side, key and source order."""
    orders = {canonical(each.key): store_order(each.key) for each in rows}
    ordered = sorted(rows, key=lambda each: (orders[canonical(each.key)][0], each.side, orders[canonical(each.key)]))
    keys = [each.key for each in ordered]
    columns = [bin_column(keys), pa.array([each.side for each in ordered], pa.int8()), *key_columns(keys)]
    columns += [pa.array([getattr(each, name) for each in ordered], pa.int64()) for name in ("late", "expiry")]
    columns.append(pa.array([each.matches for each in ordered], pa.bool_()))
    for side, schema in enumerate(SIDES):
        for at, each in enumerate(schema):
            columns.append(column(each.type, [row.row[at] if row.side == side else None for row in ordered]))
    times = [LATE_COLUMN, EXPIRY_COLUMN, MATCHES_COLUMN]
    return pa.RecordBatch.from_arrays(
        columns, [BIN_COLUMN, SIDE_COLUMN, *KEYS.names, *times, *SIDES[0].names, *SIDES[1].names]
    )


Condition = Callable[[Row, Row], bool]
"""Whether a left and a right row match, by more than their keys."""


@dataclass(frozen=True)
class JoinOfThree:
    """A join with a condition that another process evaluates, between the two parts of binshift.

    Attributes:
        find: finds the pairs; their condition reads ``l0`` and ``r0``.
        condition: over these two.
    """

    find: FindPairs
    condition: Callable[[int, int], bool]

    @classmethod
    def of(cls, join: Join, condition: Callable[[int, int], bool]) -> JoinOfThree:
        """A join by the number at the beginning of each row."""
        return cls(FindPairs(join, ("l0", "r0")), condition)

    @property
    def output_schema(self) -> pa.Schema:
        """The join's."""
        return self.find.join.output_schema

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """See the class."""
        found = self.find.run(batches, EpochState(state.reader), context)
        yield from ConditionedJoin(self.find.join).run(map(self._filtered, found), state, context)

    def _filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        pair, left, right = (batch.column(name).to_pylist() for name in (PAIR_COLUMN, "pair_l0", "pair_r0"))
        stays = [p is None or self.condition(lhs, rhs) for p, lhs, rhs in zip(pair, left, right, strict=True)]
        return batch.filter(pa.array(stays, pa.bool_()))


@dataclass
class _Held:
    sent: Sent
    new: bool = True
    matched: bool = False


@dataclass
class JoinFold:
    """`Join` of `SIDES`.

    Attributes:
        join: what it stands for; only its fields are read.
        condition: besides its comparisons.
        held: the rows that are kept.
        late: rows that the last epoch dropped as late.
    """

    join: Join
    condition: Condition | None = None
    held: list[_Held] = field(default_factory=list)
    late: int = 0
    watermark: int = 0

    def epoch(self, rows: Sequence[Sent], watermark: int) -> list[Row]:
        """The output rows."""
        on_time = [row for row in rows if row.late is None or row.late > self.watermark]
        self.late, self.watermark = len(rows) - len(on_time), watermark
        output = [self._row(row) for row in on_time if not row.matches and self.join.type.is_outer(row.side)]
        self.held += [_Held(row) for row in on_time if row.matches]
        output += self._pairs()
        ended = [each.sent.expiry is not None and each.sent.expiry <= watermark for each in self.held]
        output += [
            self._row(each.sent)
            for each, ends in zip(self.held, ended, strict=True)
            if ends and not each.matched and self.join.type.is_outer(each.sent.side)
        ]
        semi = self.join.type is JoinType.LEFT_SEMI
        kept = [
            each
            for each, ends in zip(self.held, ended, strict=True)
            if not ends and not (semi and each.matched and not each.sent.side)
        ]
        self.held = [_Held(each.sent, False, each.matched) for each in kept]
        return output

    def _pairs(self) -> list[Row]:
        output = []
        for left in (each for each in self.held if each.sent.side == 0):
            for right in (each for each in self.held if each.sent.side == 1):
                if (left.new or right.new) and self._fits(left.sent, right.sent):
                    if self.join.type is not JoinType.LEFT_SEMI:
                        output.append(left.sent.row[:3] + right.sent.row[:3])
                    elif not left.matched:
                        output.append(left.sent.row[:3])
                    left.matched = right.matched = True
        return output

    def _fits(self, left: Sent, right: Sent) -> bool:
        return (
            canonical(left.key) == canonical(right.key)
            and (self.condition is None or self.condition(left.row, right.row))
            and all(_holds(each, left.row, right.row) for each in self.join.comparisons)
        )

    def _row(self, sent: Sent) -> Row:
        nothing = (None, None, None)
        return nothing + sent.row[:3] if sent.side else sent.row[:3] + nothing


def _holds(comparison: Comparison, left: Row, right: Row) -> bool:
    values = left[int(comparison.left[1:])], right[int(comparison.right[1:])]
    return None not in values and bool(_OPERATORS[comparison.operator](*map(_ordered, values)))


def _ordered(value: Any) -> Any:
    """NaN is one number, greater than all others."""
    if not isinstance(value, float):
        return value
    return (1, 0.0) if math.isnan(value) else (0, value)
