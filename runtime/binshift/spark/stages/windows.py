"""The text of a key for the description of the state, in which windows have their lengths.

Spark's analysis has put a long expression in the place of each window, below the aggregation; the key refers to it by name.
Everything else that is computed before the aggregation may change between two starts, and a key has only its name.
"""

from __future__ import annotations

from typing import Any

from binshift.spark.plan.catalyst import Catalyst, Expression, children, class_name, sequence
from binshift.spark.stages.decomposition import by_name

WINDOW_KEY = "spark.timeWindow"
"""Column metadata with which Spark's analysis marks windows."""

_UNITS = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1000),
)
_PASSING = ("EventTimeWatermark", "Filter", "SubqueryAlias")


def key_text(catalyst: Catalyst, below: Any, key: Expression) -> str:
    """A grouping expression as text; ``below`` is the plan that it reads."""

    def replace(node: Expression) -> Expression | None:
        if class_name(node) != "AttributeReference" or not node.metadata().contains(WINDOW_KEY):
            return None
        made = _definition(below, node)
        return None if made is None else catalyst.attribute(_window(catalyst, made))

    return by_name(catalyst, catalyst.rebuild(key, replace))


def _definition(below: Any, attribute: Expression) -> Expression | None:
    """What a column is made of; None if that is out of sight."""
    while class_name(below) in ("Project", "Expand", *_PASSING):
        if class_name(below) not in _PASSING:
            known = [each.exprId().id() for each in sequence(below.output())]
            made = below.projectList() if class_name(below) == "Project" else below.projections().apply(0)
            tree = made.apply(known.index(attribute.exprId().id()))
            tree = tree.child() if class_name(tree) == "Alias" else tree
            if class_name(tree) != "AttributeReference":
                return tree
            attribute = tree
        below = below.child()
    return None


def _window(catalyst: Catalyst, made: Expression) -> str:
    """A window's expression, a struct of start and end, as it is written in SQL."""
    remainder, end = _first(made, "Remainder"), _first(children(made)[-1], "Add")
    if remainder is None or end is None:
        return by_name(catalyst, made)
    shifted = remainder.left()
    length, slide, start = (int(each.right().value()) for each in (end, remainder, shifted))
    parts = [by_name(catalyst, shifted.left().child()).replace("`", ""), _text(length)]
    if slide != length or start:
        parts.append(_text(slide))
    if start:
        parts.append(_text(start))
    return f"window({', '.join(parts)})"


def _first(tree: Expression, kind: str) -> Expression | None:
    if class_name(tree) == kind:
        return tree
    return next((found for each in children(tree) if (found := _first(each, kind)) is not None), None)


def _text(micros: int) -> str:
    """An interval in its largest unit.

    >>> _text(120_000_000), _text(90_000_000), _text(86_400_000_000), _text(7)
    ("'2 minutes'", "'90 seconds'", "'1 day'", "'7 microseconds'")
    """
    unit, size = next((each for each in _UNITS if micros % each[1] == 0), ("microsecond", 1))
    count = micros // size
    return f"'{count} {unit}{'' if count == 1 else 's'}'"
