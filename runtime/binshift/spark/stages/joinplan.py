"""Splits the condition of an analysed join of two streams, with Spark's own helpers, into the parts that a stage runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from binshift.errors import Unsupported
from binshift.operators.join import Comparison, JoinType
from binshift.operators.join_condition import PAIR_PREFIX
from binshift.spark.plan.catalyst import Catalyst, Expression, children, class_name, sequence
from binshift.spark.plan.eventtime import expiry_of, marked
from binshift.spark.stages.decomposition import by_name
from binshift.spark.stages.keytypes import check_keys

TYPES = {
    "Inner": JoinType.INNER,
    "Cross": JoinType.INNER,
    "LeftOuter": JoinType.LEFT_OUTER,
    "RightOuter": JoinType.RIGHT_OUTER,
    "FullOuter": JoinType.FULL_OUTER,
    "LeftSemi": JoinType.LEFT_SEMI,
}

OPERATORS = {"LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "EqualTo": "=="}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}

COMPARABLE = (BinaryType, BooleanType, DateType, DecimalType, IntegralType, TimestampNTZType, TimestampType)
"""Types whose values compare in Arrow as in Spark; strings do where their bytes are compared."""

PROBES_MS = (10**12, 10**12 + 86_400_000)
"""Two watermarks for which Spark is asked when rows of a side can no longer match: the answer is linear."""


@dataclass(frozen=True)
class Side:
    """One side of a join; its Columns are over the side's frame.

    Attributes:
        letter: begins the names of its columns in S.
        attributes: all of its columns.
        keys: its join keys.
        late: its event time in milliseconds since 1970: a row at or before the watermark is late; None without a watermark.
        expiry: when a row can match no later row any more, likewise; None: never.
        waits_ms: how much older than the watermark a row can be that is still kept, in milliseconds.
        matches: whether a row can match at all: the conditions on this side alone.
        compared: what the comparisons need of it, behind its columns.
    """

    letter: str
    attributes: tuple[Column, ...]
    keys: tuple[Column, ...]
    late: Column | None
    expiry: Column | None
    waits_ms: int
    matches: Column
    compared: tuple[Column, ...]


@dataclass(frozen=True)
class PairCondition:
    """A condition that Spark evaluates on pairs before S joins them.

    Attributes:
        holds: the condition, over the columns it reads, whose names begin with `PAIR_PREFIX`.
        columns: these columns, as S has them.
    """

    holds: Column
    columns: tuple[str, ...]


@dataclass(frozen=True)
class JoinPlan:
    """A compiled join.

    Attributes:
        type: of the join.
        sides: left and right.
        comparisons: between columns of both sides, evaluated in S.
        behind: a condition on pairs, over the columns that S returns; None if there is none.
        condition: a condition on pairs that decides what matches, in an outer or semi join; None if there is none.
        conditions: all conditions, as text that is the same in every run of the same program.
    """

    type: JoinType
    sides: tuple[Side, Side]
    comparisons: tuple[Comparison, ...]
    behind: Column | None
    condition: PairCondition | None
    conditions: tuple[str, ...]

    @classmethod
    def of(cls, catalyst: Catalyst, node: Any) -> JoinPlan:
        """Compile Spark's analysed ``Join`` of two streams.

        Raises:
            Unsupported: no key of equality, or a key that Spark compares by other than its bytes.
        """
        return _Split(catalyst, node).plan()


class _Split:
    def __init__(self, catalyst: Catalyst, node: Any) -> None:
        self.catalyst = catalyst
        self.outputs = [sequence(side.output()) for side in (node.left(), node.right())]
        self.ids = [{each.exprId().id() for each in output} for output in self.outputs]
        self.names = {
            each.exprId().id(): f"{letter}{at}"
            for letter, output in zip("lr", self.outputs, strict=True)
            for at, each in enumerate(output)
        }
        self.type = TYPES.get(str(node.joinType().toString()))
        if self.type is None:
            raise Unsupported(f"a {node.joinType().sql()} join of two streams is not supported")
        equi = catalyst.equi_join(node)
        if equi is None:
            raise Unsupported(
                "a join of two streams needs a condition left = right, by which rows are assigned to workers; for all pairs, "
                "add a constant column to both"
            )
        self.keys = (equi[0], equi[1])
        self.condition = equi[2]
        self.conjuncts = [] if self.condition is None else list(_conjuncts(self.condition))

    def plan(self) -> JoinPlan:
        own: tuple[list[Expression], list[Expression]] = ([], [])
        compared: tuple[list[Column], list[Column]] = ([], [])
        operators: list[str] = []
        rest: list[Expression] = []
        for each in self.conjuncts:
            side = self._side_of(each)
            if side is not None:
                own[side].append(each)
            elif (found := self._comparison(each)) is not None:
                operators.append(found[1])
                compared[0].append(self.catalyst.column(found[0]))
                compared[1].append(self.catalyst.column(found[2]))
            else:
                rest.append(each)
        sides = self._side(0, "l", own[0], compared[0]), self._side(1, "r", own[1], compared[1])
        firsts = [len(output) for output in self.outputs]
        comparisons = tuple(
            Comparison(f"l{firsts[0] + at}", operator, f"r{firsts[1] + at}") for at, operator in enumerate(operators)
        )
        texts = tuple(f"where {by_name(self.catalyst, each)}" for each in self.conjuncts)
        type = self.type or JoinType.INNER
        behind, condition = (rest, []) if type is JoinType.INNER else ([], rest)
        return JoinPlan(type, sides, comparisons, self._over(behind), self._pair_condition(condition), texts)

    def _side(self, number: int, letter: str, own: Sequence[Expression], compared: Sequence[Column]) -> Side:
        keys, output = self.keys[number], self.outputs[number]
        check_keys("a join by", [StructField(str(key.sql()), self.catalyst.data_type(key)) for key in keys])
        matches = [self.catalyst.column(each) for each in own]
        expiry, waits_ms = self._expiry(number)
        return Side(
            letter=letter,
            attributes=tuple(self.catalyst.column(each) for each in output),
            keys=tuple(self.catalyst.column(each) for each in keys),
            late=self._late(output),
            expiry=expiry,
            waits_ms=waits_ms,
            matches=reduce(lambda a, b: a & b, matches, F.lit(True)),
            compared=tuple(compared),
        )

    def _late(self, output: Sequence[Expression]) -> Column | None:
        times = marked(output)
        return self._end_ms(output[times[0]]) if times else None

    def _end_ms(self, expression: Expression) -> Column:
        return expiry_of(self.catalyst, expression, self.catalyst.data_type(expression))

    def _expiry(self, number: int) -> tuple[Column | None, int]:
        """As Spark: by a key that is the event time, or by what the condition implies for the other side's times; and the wait."""
        timed = marked(self.keys[0]) or marked(self.keys[1])
        if timed:
            return self._end_ms(self.keys[number][timed[0]]), 0
        output, other = self.outputs[number], self.outputs[1 - number]
        times = marked(output)
        if not times or self.condition is None:
            return None, 0
        found = [self.catalyst.state_watermark(output, other, self.condition, probe) for probe in PROBES_MS]
        if found[0] is None or found[1] is None or found[1] - found[0] != PROBES_MS[1] - PROBES_MS[0]:
            return None, 0
        waits_ms = PROBES_MS[0] - found[0]
        return self._end_ms(output[times[0]]) + F.lit(waits_ms), waits_ms

    def _side_of(self, expression: Expression) -> int | None:
        """The side that has all columns of an expression."""
        used = {each.exprId().id() for each in sequence(expression.references().toSeq())}
        return next((number for number in (0, 1) if used <= self.ids[number]), None)

    def _comparison(self, expression: Expression) -> tuple[Expression, str, Expression] | None:
        operator = OPERATORS.get(class_name(expression))
        if operator is None:
            return None
        first, second = children(expression)
        if not _is_comparable(self.catalyst.data_type(first)):
            return None
        match self._side_of(first), self._side_of(second):
            case 0, 1:
                return first, operator, second
            case 1, 0:
                return second, MIRRORED[operator], first
            case _:
                return None

    def _pair_condition(self, conditions: Sequence[Expression]) -> PairCondition | None:
        holds = self._over(conditions, PAIR_PREFIX)
        used = {each.exprId().id() for one in conditions for each in sequence(one.references().toSeq())}
        return None if holds is None else PairCondition(holds, tuple(self.names[id] for id in self.names if id in used))

    def _over(self, conditions: Sequence[Expression], prefix: str = "") -> Column | None:
        """The conditions over the columns that S has of both sides, with a prefix."""

        def replace(node: Expression) -> Expression | None:
            if class_name(node) != "AttributeReference":
                return None
            return self.catalyst.attribute(f"{prefix}{self.names[node.exprId().id()]}")

        columns = [self.catalyst.column(self.catalyst.rebuild(each, replace)) for each in conditions]
        return reduce(lambda a, b: a & b, columns) if columns else None


def _conjuncts(condition: Expression) -> list[Expression]:
    if class_name(condition) != "And":
        return [condition]
    return [part for side in children(condition) for part in _conjuncts(side)]


def _is_comparable(type: DataType) -> bool:
    return isinstance(type, COMPARABLE) or (isinstance(type, StringType) and type == StringType())
