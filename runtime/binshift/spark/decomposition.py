"""Takes the user's aggregate expressions apart: inputs, buffers, and the rest, which Catalyst computes at the end.

Of an expression like ``round(sum(a * 2) / count(*), 2)`` this module makes the *input* ``a * 2``, computed before the
exchange; the *buffers* sum and count, kept in the state; and the *final* expression ``round(p0 / p1, 2)`` over them.
It owns the names (inputs ``i0..``, keys ``k0..``, buffers ``p0..``) and rebinds the user's column references by name,
as each micro-batch is a new frame with the same schema. It must never decide how an aggregate is merged: see `buffers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from binshift.errors import Unsupported
from binshift.operators.merge import Merge
from binshift.spark.buffers import Call, Group, decompose
from binshift.spark.catalyst import Catalyst, Expression, children, class_name, sequence

SUBQUERIES = ("ScalarSubquery", "Exists", "InSubquery", "ListQuery", "LateralSubquery")


@dataclass(frozen=True)
class ByName:
    """Rebinds references to a frame's columns by their names.

    Attributes:
        catalyst: the session's trees.
        names: the frame's columns by Catalyst's id.
    """

    catalyst: Catalyst
    names: Mapping[int, str]

    @classmethod
    def of(cls, catalyst: Catalyst, plan: Any) -> ByName:
        """For the frame with the analysed ``plan``."""
        return cls(catalyst, {found.exprId().id(): str(found.name()) for found in sequence(plan.output())})

    def rebind(self, expression: Expression) -> Expression:
        """The same tree, with each column found by name in whatever frame it is used on.

        Raises:
            Unsupported: a column that has no name of its own in the frame, or a subquery.
        """
        return self.catalyst.rebuild(expression, self._replace)

    def _replace(self, expression: Expression) -> Expression | None:
        kind = class_name(expression)
        if kind in SUBQUERIES:
            raise Unsupported(f"{expression.sql()}: a subquery within groupBy or agg; join with its result instead")
        if kind != "AttributeReference":
            return None
        name = self.names.get(expression.exprId().id())
        if name is None:
            raise Unsupported(
                f"{expression.sql()} is no column of the grouped frame, so it cannot be found in the next micro-batch; "
                "add it with withColumn before groupBy"
            )
        if sum(1 for other in self.names.values() if other.lower() == name.lower()) > 1:
            raise Unsupported(
                f"the grouped frame has several columns named {name!r}; rename them with withColumnRenamed"
            )
        return self.catalyst.attribute(name)


@dataclass
class Decomposition:
    """The parts of all output expressions of one aggregation.

    Attributes:
        by_name: rebinds the frame's columns.
        grouping: the resolved grouping expressions.
        columns: names for the buffers of each group; a group that is missing gets none yet.
        inputs: the resolved arguments of the aggregates, each once.
        labels: the groups found, each with what the user wrote.
    """

    by_name: ByName
    grouping: Sequence[Expression]
    columns: Mapping[Group, tuple[str, ...]] = field(default_factory=dict)
    inputs: list[Expression] = field(default_factory=list)
    labels: dict[Group, str] = field(default_factory=dict)

    def final(self, output: Expression) -> Expression:
        """A resolved output expression, over keys and merged buffers instead of rows.

        Raises:
            Unsupported: an aggregate that has no mergeable form; the message names it.
        """
        return self.by_name.catalyst.rebuild(output, self._replace)

    def input_columns(self) -> list[Column]:
        """The inputs as Columns ``i0..`` over a micro-batch."""
        catalyst = self.by_name.catalyst
        trees = [self.by_name.rebind(expression) for expression in self.inputs]
        return [catalyst.column(tree).alias(f"i{i}") for i, tree in enumerate(trees)]

    def named(self) -> Decomposition:
        """The same, with every group found so far given its column names.

        The groups are put in the order of what they compute, so that the layout of the state does not depend on the
        order in which the user lists aggregates.
        """
        labels = self.labels or {Group(Merge.COUNT, ("count(1)",)): "count(1)"}  # a key must leave a trace in the state
        names: dict[Group, tuple[str, ...]] = {}
        at = 0
        for group in sorted(labels, key=self.describe):
            names[group] = tuple(f"p{at + i}" for i in range(len(group.partials)))
            at += len(group.partials)
        return Decomposition(self.by_name, self.grouping, names, self.inputs, labels)

    def describe(self, group: Group) -> str:
        """What a group keeps, in words that are the same in every run of the same program."""
        return f"{group.merge.value}: {', '.join(self.in_words(partial) for partial in group.partials)}"

    def in_words(self, partial: str) -> str:
        """A partial aggregate with the user's expressions in the place of input names."""
        return re.sub(r"\bi(\d+)\b", lambda found: str(self.by_name.rebind(self.inputs[int(found[1])]).sql()), partial)

    def _replace(self, expression: Expression) -> Expression | None:
        for i, key in enumerate(self.grouping):
            if expression.semanticEquals(key):
                return self.by_name.catalyst.attribute(f"k{i}")
        kind = class_name(expression)
        if kind == "AggregateExpression":
            return self._aggregate(expression)
        if kind == "AttributeReference":
            raise Unsupported(f"{expression.sql()} is neither grouped by nor aggregated")
        return None

    def _aggregate(self, expression: Expression) -> Expression:
        catalyst, function = self.by_name.catalyst, expression.aggregateFunction()
        label = str(expression.sql())
        if expression.isDistinct():
            raise Unsupported(
                f"{label}: DISTINCT aggregates need every value in the state, and Spark refuses them on streams too; "
                "use collect_set with size(), or group by the value first"
            )
        while catalyst.is_a(function, "RuntimeReplaceable"):
            function = function.replacement()
        kind, arguments = class_name(function), children(function)
        if kind == "Count":  # an argument that is never null decides nothing
            arguments = [argument for argument in arguments if argument.nullable()]
        where = expression.filter()
        call = Call(
            function=function,
            label=label,
            inputs=tuple(self._input(argument) for argument in arguments),
            kinds=tuple(catalyst.data_type(argument) for argument in arguments),
            where=self._input(where.get()) if where.isDefined() else None,
        )
        return self._over_buffers(call, kind)

    def _input(self, expression: Expression) -> str:
        for i, known in enumerate(self.inputs):
            if known is expression or known.semanticEquals(expression):
                return f"i{i}"
        self.inputs.append(expression)
        return f"i{len(self.inputs) - 1}"

    def _over_buffers(self, call: Call, kind: str) -> Expression:
        """What computes the result of ``call`` from its merged buffers: Spark's own expression, where it has one."""
        catalyst, buffers = self.by_name.catalyst, decompose(call, kind)
        for group in buffers.groups:
            self.labels.setdefault(group, call.label)
        names = [
            name for group in buffers.groups for name in self.columns.get(group, ("unnamed",) * len(group.partials))
        ]
        slots = [catalyst.expression(F.expr(slot.format(*names))) for slot in buffers.slots]
        if not catalyst.is_a(call.function, "aggregate.DeclarativeAggregate"):
            return slots[0]
        ids = [attribute.exprId().id() for attribute in sequence(call.function.aggBufferAttributes())]
        by_id = dict(zip(ids, slots, strict=True))

        def replace(node: Expression) -> Expression | None:
            return by_id[node.exprId().id()] if class_name(node) == "AttributeReference" else None

        return catalyst.rebuild(call.function.evaluateExpression(), replace)
