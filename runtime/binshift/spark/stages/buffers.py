"""The buffers of each Spark aggregate, how the JVM computes them, and how they are merged: one table.

This module owns the decomposition of an aggregate function into *partials* (Spark SQL aggregates over one epoch's rows
of a key), a merge rule for them, and *slots*: the replacement for each buffer of Spark's `DeclarativeAggregate`. With them,
Spark's own `evaluateExpression` computes the result from the merged buffers, with Spark's types, rounding and errors. The
module is pure except that it reads attributes of the function.

It must never approximate: what is not in the table is left to Spark (see `plan.opaque`). Everything that depends on the order of
rows (first, last, lists, ties of max_by) uses `ORDER_COLUMN`, the row's position in the source, and not the order in which
a shuffle delivers rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types

from binshift.operators.merge import Merge, Overflow
from binshift.spark.stages.statetypes import is_ordered, is_storable

ORDER_COLUMN = "o"
"""Column of the prepared rows: source partition and row number within it, as one bigint."""


@dataclass(frozen=True)
class Group:
    """Buffer columns that are merged together.

    Attributes:
        merge: the rule.
        partials: one Spark SQL aggregate per column, over the prepared rows.
        overflow: what a result means that exceeds its type.
    """

    merge: Merge
    partials: tuple[str, ...]
    overflow: Overflow = Overflow.ERROR


@dataclass(frozen=True)
class Call:
    """One aggregate function as the user called it.

    Attributes:
        function: the resolved Catalyst function.
        inputs: the prepared columns that hold its arguments.
        kinds: their types.
        where: the prepared boolean column of its FILTER clause, if it has one.
    """

    function: Any
    inputs: tuple[str, ...]
    kinds: tuple[types.DataType, ...]
    where: str | None = None

    def over(self, aggregate: str, *, only: str = "") -> str:
        """SQL of ``aggregate`` over the rows that pass the FILTER clause and the condition ``only``."""
        conditions = [condition for condition in (only, self.where) if condition]
        return f"{aggregate} FILTER (WHERE {' AND '.join(conditions)})" if conditions else aggregate


@dataclass(frozen=True)
class Buffers:
    """The decomposition of one call.

    Attributes:
        groups: its buffers. Their columns are numbered through all groups.
        slots: for each buffer of Spark's function, SQL over the merged columns, written ``{number}``. A function
            without an `evaluateExpression` has one slot: its result.
    """

    groups: tuple[Group, ...]
    slots: tuple[str, ...]


def decompose(call: Call, kind: str) -> Buffers | None:
    """The buffers of ``call``, whose function is of the Catalyst class ``kind``; None if Python cannot merge or keep them."""
    make = _TABLE.get(kind)
    if make is None or (kind != "Count" and not all(map(is_storable, call.kinds))):
        return None
    return make(call)


def _count(call: Call) -> Buffers:
    arguments = ", ".join(call.inputs) or "1"
    return Buffers((Group(Merge.COUNT, (call.over(f"count({arguments})"),)),), ("{0}",))


def _sum(call: Call) -> Buffers:
    mode, type = call.function.evalContext().evalMode().toString(), call.kinds[0]
    if isinstance(type, types.DecimalType) or call.function.aggBufferAttributes().size() == 2:
        overflow = Overflow.ERROR if mode == "ANSI" else Overflow.NULL
        return Buffers((_counted_sum(call, mode, overflow),), ("{0}", "{1} = 0"))
    wraps = mode == "LEGACY" and isinstance(type, types.IntegralType)
    partial = call.over(f"sum({call.inputs[0]})")
    return Buffers((Group(Merge.SUM, (partial,), Overflow.WRAP if wraps else Overflow.ERROR),), ("{0}",))


def _average(call: Call) -> Buffers:
    mode, value = call.function.evalMode().toString(), call.inputs[0]
    if call.function.sumDataType().typeName() == "double":
        total = Group(Merge.SUM, (call.over(f"sum(cast({value} AS double))"),))
        return Buffers((total, Group(Merge.COUNT, (call.over(f"count({value})"),))), ("{0}", "{1}"))
    legacy_decimal = mode == "LEGACY" and isinstance(call.kinds[0], types.DecimalType)
    overflow = Overflow.NULL if legacy_decimal or mode == "TRY" else Overflow.ERROR
    return Buffers((_counted_sum(call, mode, overflow),), ("{0}", "{1}"))


def _counted_sum(call: Call, mode: str, overflow: Overflow) -> Group:
    name, value = "try_sum" if mode == "TRY" else "sum", call.inputs[0]
    return Group(Merge.COUNTED_SUM, (call.over(f"{name}({value})"), call.over(f"count({value})")), overflow)


def _one_column(name: str, merge: Merge) -> Callable[[Call], Buffers | None]:
    def make(call: Call) -> Buffers | None:
        if not is_ordered(call.kinds[0]):
            return None
        return Buffers((Group(merge, (call.over(f"{name}({call.inputs[0]})"),)),), ("{0}",))

    return make


def _product(call: Call) -> Buffers:
    value = f"if({call.where}, {call.inputs[0]}, NULL)" if call.where else call.inputs[0]
    return Buffers((Group(Merge.PRODUCT, (f"product({value})",)),), ("{0}",))


def _first_or_last(chosen: str, merge: Merge) -> Callable[[Call], Buffers | None]:
    def make(call: Call) -> Buffers | None:
        value = call.inputs[0]
        only = f"{value} IS NOT NULL" if call.function.ignoreNulls() else ""
        seen = call.over("count(1)", only=only)
        partials = (call.over(f"{chosen}({value}, {ORDER_COLUMN})", only=only), f"{seen} > 0")
        return Buffers((Group(merge, partials),), ("{0}", "{1}"))

    return make


def _extreme_by(name: str, extreme: str, tie: str, merge: Merge) -> Callable[[Call], Buffers | None]:
    def make(call: Call) -> Buffers | None:
        value, ordering = call.inputs
        if not is_ordered(call.kinds[1]):
            return None
        # Of rows with equal orderings the last one in the source, in whatever order they arrive.
        exact = call.over(f"{name}({value}, struct({ordering}, {tie}))", only=f"{ordering} IS NOT NULL")
        return Buffers((Group(merge, (exact, call.over(f"{extreme}({ordering})"))),), ("{0}", "{1}"))

    return make


def _moments(call: Call) -> Buffers:
    x = call.inputs[0]
    n, m2 = call.over(f"count({x})"), f"{call.over(f'var_pop({x})')}"
    partials = [f"cast({n} AS double)", f"coalesce({call.over(f'avg({x})')}, 0D)", f"coalesce({m2} * {n}, 0D)"]
    # The third and fourth moments are derived from Spark's own, numerically stable ones; without spread they are zero.
    if call.function.momentOrder() >= 3:
        m3 = f"{call.over(f'skewness({x})')} * {m2} * sqrt({m2}) * {n}"
        partials.append(f"CASE WHEN coalesce({m2}, 0D) = 0D THEN 0D ELSE {m3} END")
    if call.function.momentOrder() >= 4:
        m4 = f"({call.over(f'kurtosis({x})')} + 3D) * {m2} * {m2} * {n}"
        partials.append(f"CASE WHEN coalesce({m2}, 0D) = 0D THEN 0D ELSE {m4} END")
    return Buffers((Group(Merge.MOMENTS, tuple(partials)),), tuple(f"{{{i}}}" for i in range(len(partials))))


def _comoments(columns: int) -> Callable[[Call], Buffers | None]:
    def make(call: Call) -> Buffers | None:
        x, y = call.inputs
        both = f"{x} IS NOT NULL AND {y} IS NOT NULL"
        n = call.over("count(1)", only=both)
        averages = [f"coalesce({call.over(f'avg({v})', only=both)}, 0D)" for v in (x, y)]
        products = (f"covar_pop({x}, {y})", f"var_pop({x})", f"var_pop({y})")
        spreads = [f"coalesce({call.over(p, only=both)} * {n}, 0D)" for p in products]
        partials = (f"cast({n} AS double)", *averages, *spreads)[:columns]
        return Buffers((Group(Merge.COMOMENTS, partials),), tuple(f"{{{i}}}" for i in range(columns)))

    return make


def _collect_list(call: Call) -> Buffers | None:
    if not call.function.ignoreNulls():
        return None
    value = call.inputs[0]
    rows = call.over(f"collect_list(struct({ORDER_COLUMN}, {value} AS v))", only=f"{value} IS NOT NULL")
    return Buffers((Group(Merge.CONCAT, (f"array_compact(transform(sort_array({rows}), r -> r.v))",)),), ("{0}",))


def _collect_set(call: Call) -> Buffers | None:
    if not call.function.ignoreNulls():
        return None
    if not is_ordered(call.kinds[0]):
        return None
    return Buffers((Group(Merge.UNION, (f"sort_array({call.over(f'collect_set({call.inputs[0]})')})",)),), ("{0}",))


_TABLE: dict[str, Callable[[Call], Buffers | None]] = {
    "Count": _count,
    "Sum": _sum,
    "Average": _average,
    "Min": _one_column("min", Merge.MIN),
    "Max": _one_column("max", Merge.MAX),
    "BitAndAgg": _one_column("bit_and", Merge.BIT_AND),
    "BitOrAgg": _one_column("bit_or", Merge.BIT_OR),
    "BitXorAgg": _one_column("bit_xor", Merge.BIT_XOR),
    "Product": _product,
    "First": _first_or_last("min_by", Merge.FIRST),
    "Last": _first_or_last("max_by", Merge.LAST),
    "MinBy": _extreme_by("min_by", "min", f"-{ORDER_COLUMN}", Merge.MIN_BY),
    "MaxBy": _extreme_by("max_by", "max", ORDER_COLUMN, Merge.MAX_BY),
    **dict.fromkeys(("VariancePop", "VarianceSamp", "StddevPop", "StddevSamp", "Skewness", "Kurtosis"), _moments),
    "CovPopulation": _comoments(4),
    "CovSample": _comoments(4),
    "Corr": _comoments(6),
    "RegrR2": _comoments(6),
    "CollectList": _collect_list,
    "CollectSet": _collect_set,
}
