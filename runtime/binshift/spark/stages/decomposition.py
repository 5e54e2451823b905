"""Splits the user's aggregate expressions: inputs, buffers, and the rest, which Catalyst computes at the end.

Of an expression like ``round(sum(a * 2) / count(*), 2)`` this module makes the *input* ``a * 2``, computed before the
exchange; the *buffers* sum and count, kept in the state; and the *final* expression ``round(p0 / p1, 2)`` over them.
It owns the names (inputs ``i0..``, keys ``k0..``, buffers ``p0..``). It must never decide how an aggregate is merged: see
`buffers`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from binshift.errors import Unsupported
from binshift.operators.merge import Merge, buffer_names
from binshift.spark.plan.catalyst import Catalyst, Expression, children, class_name, sequence
from binshift.spark.plan.opaque import Opaque
from binshift.spark.stages.buffers import Call, Group, decompose


def by_name(catalyst: Catalyst, expression: Expression) -> str:
    """The expression as text that is the same in every run of the same program: columns have their names only."""

    def replace(node: Expression) -> Expression | None:
        return catalyst.attribute(str(node.name())) if class_name(node) == "AttributeReference" else None

    return str(catalyst.rebuild(expression, replace).sql())


@dataclass(frozen=True)
class Found:
    """One aggregate in the user's expressions.

    Attributes:
        function: the resolved Catalyst function.
        label: the call as the user wrote it.
        groups: the buffers it needs.
        slots: see `Buffers`; none for a function whose buffer only Spark understands.
    """

    function: Expression
    label: str
    groups: tuple[Group, ...]
    slots: tuple[str, ...] = ()


class Decomposition:
    """The parts of all output expressions of one aggregation.

    Args:
        catalyst: the session's trees.
        grouping: the resolved grouping expressions.
        outputs: the resolved output expressions.
        listed: whether a buffer that only Spark understands is kept as a list of such buffers, instead of being merged.

    Attributes:
        columns: the buffers, and the names of their columns, ordered by what they compute, so that the layout of the state
            does not depend on the order in which the user lists aggregates.
        labels: the user's expression for each group of buffers.
        opaque: the groups whose buffers only Spark understands.
        found: the aggregates in the order of the expressions, repeated ones included.

    Raises:
        Unsupported: an aggregate that Spark does not run on streams either; the message names it.
    """

    def __init__(
        self, catalyst: Catalyst, grouping: Sequence[Expression], outputs: Sequence[Expression], *, listed: bool = False
    ) -> None:
        self._catalyst = catalyst
        self._grouping = grouping
        self._outputs = outputs
        self._listed = listed
        self.opaque: dict[Group, Opaque] = {}
        self._inputs: list[tuple[int, Expression]] = []
        self.found: list[Found] = []
        for output in outputs:
            self._catalyst.rebuild(output, self._collect)
        self.labels = {group: found.label for found in reversed(self.found) for group in found.groups}
        if not self.labels:  # a key must have a row in the state
            self.labels = {Group(Merge.COUNT, ("count(1)",)): "count(1)"}
        inputs = [by_name(catalyst, tree) for _, tree in self._inputs]
        self._described = {group: _description(group, inputs) for group in self.labels}
        self.columns: dict[Group, tuple[str, ...]] = {}
        at = 0
        for group in sorted(self.labels, key=self.describe):
            self.columns[group] = tuple(f"p{at + i}" for i in range(len(group.partials)))
            at += len(group.partials)

    def describe(self, group: Group) -> str:
        """What a group keeps, as text that is the same in every run of the same program."""
        return self._described[group]

    def buffer_names(self) -> tuple[str, ...]:
        """What the columns of the buffers hold, in Spark's names; with the call where several have the same."""
        found = [
            (name, self.labels[group])
            for group, columns in self.columns.items()
            for name in buffer_names(group.merge, len(columns))
        ]
        counts = Counter(name for name, _ in found)
        return tuple(name if counts[name] == 1 else f"{name} of {label}" for name, label in found)

    def inputs(self) -> list[Column]:
        """The arguments of the aggregates, each once, as Columns ``i0..`` over a micro-batch."""
        return [self._catalyst.column(tree).alias(f"i{i}") for i, (_, tree) in enumerate(self._inputs)]

    def finals(self) -> list[Expression]:
        """The output expressions, over keys and merged buffers instead of rows."""
        found = iter(self.found)  # visited again in the same order; they cannot be compared, as first() equals nothing

        def replace(expression: Expression) -> Expression | None:
            key = self._key(expression)
            if key is not None:
                return self._catalyst.attribute(f"k{key}")
            return self._over_buffers(next(found)) if class_name(expression) == "AggregateExpression" else None

        return [self._catalyst.rebuild(output, replace) for output in self._outputs]

    def _collect(self, expression: Expression) -> Expression | None:
        """Record every aggregate; descend into every other expression that is not a key."""
        if self._key(expression) is not None:
            return expression
        kind = class_name(expression)
        if kind == "AttributeReference":
            raise Unsupported(f"{expression.sql()} is neither grouped by nor aggregated")
        if kind != "AggregateExpression":
            return None
        self.found.append(self._understand(expression))
        return expression

    def _key(self, expression: Expression) -> int | None:
        return next((i for i, key in enumerate(self._grouping) if expression.semanticEquals(key)), None)

    def _understand(self, expression: Expression) -> Found:
        function, label = expression.aggregateFunction(), str(expression.sql())
        if expression.isDistinct():
            raise Unsupported(
                f"{label}: DISTINCT aggregates need every value in the state, and Spark refuses them on streams too; "
                "use collect_set with size(), or group by the value first"
            )
        while self._catalyst.is_a(function, "RuntimeReplaceable"):
            function = function.replacement()
        kind, arguments = class_name(function), children(function)
        if kind == "Count":  # an argument that is never null has no effect
            arguments = [argument for argument in arguments if argument.nullable()]
        where, known = expression.filter(), len(self._inputs)
        call = Call(
            function=function,
            inputs=tuple(self._input(argument) for argument in arguments),
            kinds=tuple(self._catalyst.data_type(argument) for argument in arguments),
            where=self._input(where.get()) if where.isDefined() else None,
        )
        found = decompose(call, kind)
        if found is not None:
            return Found(function, label, found.groups, found.slots)
        del self._inputs[known:]
        opaque = Opaque.of(self._catalyst, expression, function, self._input, listed=self._listed)
        group = Group(Merge.CONCAT if self._listed else Merge.REPLACE, (opaque.text,))
        self.opaque[group] = opaque
        return Found(function, label, (group,))

    def _input(self, expression: Expression) -> str:
        hashed = expression.semanticHash()
        for i, (other, known) in enumerate(self._inputs):
            if other == hashed and known.semanticEquals(expression):
                return f"i{i}"
        self._inputs.append((hashed, expression))
        return f"i{len(self._inputs) - 1}"

    def _over_buffers(self, found: Found) -> Expression:
        """The expression that computes an aggregate from its merged buffers: Spark's own where it has one."""
        function, catalyst = found.function, self._catalyst
        names = [name for group in found.groups for name in self.columns[group]]
        if not found.slots:
            return self.opaque[found.groups[0]].value(names[0])
        slots = [catalyst.expression(F.expr(slot.format(*names))) for slot in found.slots]
        if not catalyst.is_a(function, "aggregate.DeclarativeAggregate"):
            return slots[0]
        ids = [attribute.exprId().id() for attribute in sequence(function.aggBufferAttributes())]
        by_id = dict(zip(ids, slots, strict=True))

        def replace(node: Expression) -> Expression | None:
            return by_id[node.exprId().id()] if class_name(node) == "AttributeReference" else None

        return catalyst.rebuild(function.evaluateExpression(), replace)


def _description(group: Group, inputs: Sequence[str]) -> str:
    """The rule and the partial aggregates, with the user's expressions in the place of input names."""
    partials = (re.sub(r"\bi(\d+)\b", lambda found: inputs[int(found[1])], partial) for partial in group.partials)
    return f"{group.merge.value}: {', '.join(partials)}"
