"""The target of each figure, and whether it is met. Pure; a figure that misses its target is reported, never asserted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A bound on one figure of some rows.

    Attributes:
        what: the figure's name.
        column: its column in a row.
        bound: its target value.
        at_least: whether more is better; otherwise less is.
        of: the rows that it applies to.
        unit: printed after the figure and the bound.
    """

    what: str
    column: str
    bound: float
    at_least: bool = False
    of: Callable[[Row], bool] = lambda row: True
    unit: str = ""


def verdicts(rows: Sequence[Row], targets: Sequence[Target], name: Callable[[Row], str]) -> list[dict[str, object]]:
    """A line for each target and each of its rows: the figure, the target, and whether it is met.

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


def summary(rows: Sequence[Row], targets: Sequence[Target], name: Callable[[Row], str]) -> list[dict[str, object]]:
    """A line for each target with rows: its worst case, and in how many cases it is met.

    >>> summary([{"n": 1.0}, {"n": 2.0}], [Target("size", "n", 1.5)], lambda row: str(row["n"]))
    [{'what': 'size', 'target': '<= 1.5', 'worst': 2.0, 'in the case': '2.0', 'met': '1 of 2'}]
    """
    found: list[dict[str, object]] = []
    for target in targets:
        lines = verdicts(rows, [target], name)
        if not lines:
            continue
        worst = sorted(lines, key=lambda line: line["figure"], reverse=not target.at_least)[0]  # type: ignore[arg-type, return-value]
        met = f"{sum(bool(line['met']) for line in lines)} of {len(lines)}"
        line = {"what": target.what, "target": worst["target"], "worst": worst["figure"], "in the case": worst["case"]}
        found.append(line | {"met": met})
    return found


def is_met(figure: float, target: Target) -> bool:
    """Whether a figure reaches its target; one that could not be measured does not."""
    if math.isnan(figure):
        return False
    return figure >= target.bound if target.at_least else figure <= target.bound
