"""What each figure is to reach, and whether it did. Pure; a figure that misses its target is reported, never asserted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """A bound on one figure of some rows.

    Attributes:
        what: the figure, in words.
        column: where it is in a row.
        bound: what it is to reach.
        at_least: whether more is better; less is, otherwise.
        of: the rows it is about.
        unit: behind the figure and the bound.
    """

    what: str
    column: str
    bound: float
    at_least: bool = False
    of: Callable[[Row], bool] = lambda row: True
    unit: str = ""


def verdicts(rows: Sequence[Row], targets: Sequence[Target], name: Callable[[Row], str]) -> list[dict[str, object]]:
    """A line for each target and each row it is about: what was reached, what was to be, and whether it is met.

    >>> verdicts([{"n": 2.0}], [Target("size", "n", 1.5)], lambda row: "one")
    [{'what': 'size', 'case': 'one', 'figure': 2.0, 'target': '<= 1.5', 'met': False}]
    """
    return [
        {
            "what": target.what,
            "case": name(row),
            "figure": row[target.column],
            "target": f"{'>=' if target.at_least else '<='} {target.bound:,g}{target.unit}",
            "met": is_met(row[target.column], target),
        }
        for target in targets
        for row in rows
        if row.get(target.column) is not None and target.of(row)
    ]


def is_met(figure: float, target: Target) -> bool:
    """Whether a figure reaches its target; what could not be measured does not."""
    if math.isnan(figure):
        return False
    return figure >= target.bound if target.at_least else figure <= target.bound
