"""Which stateful operators of a program are one: equal ones, and aggregations of the same rows by the same keys.

Spark keeps state for each of them. One of two aggregations is enough where its columns include those of the other; the other's readers
take theirs from it.
"""

from __future__ import annotations

from typing import Any

from binshift.spark.plan.catalyst import class_name, sequence
from binshift.spark.plan.template import Templates


def columns_in(known: Any, plan: Any, templates: Templates) -> tuple[int, ...] | None:
    """Where an operator has the columns that another one returns, by position; None if it does not have the same rows, or not all of them."""
    if not plan.deterministic():
        return None
    if known.sameResult(plan):
        return tuple(range(plan.output().size()))
    aggregates = class_name(known) == class_name(plan) == "Aggregate"
    if not aggregates or not known.deterministic() or not known.child().sameResult(plan.child()):
        return None
    columns = [_single(known, each, templates) for each in sequence(known.aggregateExpressions())]
    found = []
    for wanted in sequence(plan.aggregateExpressions()):
        own = _single(plan, wanted, templates)
        at = next((at for at, column in enumerate(columns) if column.sameResult(own)), None)
        if at is None:
            return None
        found.append(at)
    return tuple(found)


def _single(aggregate: Any, column: Any, templates: Templates) -> Any:
    """The aggregation with one column of its result, which Spark compares with another one."""
    return aggregate.copy(
        aggregate.groupingExpressions(), templates.scala_sequence([column]), aggregate.child(), aggregate.hint()
    )
