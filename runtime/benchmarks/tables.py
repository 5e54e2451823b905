"""Rows of figures as text for a terminal and as Markdown for a page. Pure.

A column whose name begins with ``_`` is data for plots and is not shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Row = Mapping[str, object]


def text(rows: Sequence[Row]) -> str:
    """Rows as aligned columns.

    >>> print(text([{"keys": 1000000, "spike": 1.0512}]))
    keys       spike
    1,000,000  1.051
    """
    lines = _cells(rows)
    if not lines:
        return "(nothing)"
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def markdown(rows: Sequence[Row]) -> str:
    """Rows as a table of a Markdown page.

    >>> print(markdown([{"part": "plan", "ms": 3.0}]))
    | part | ms |
    |---|---|
    | plan | 3.00 |
    """
    lines = _cells(rows)
    if not lines:
        return "(nothing)"
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "---|" * len(lines[0]), *shown[1:]])


def cell(value: object) -> str:
    """One figure: about three digits, with thousands separators.

    >>> cell(0.12345), cell(12.345), cell(227251.2), cell(True), cell(float("nan")), cell(None)
    ('0.123', '12.3', '227,251', 'yes', '-', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "-"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2 if abs(value) >= 2 else 3
    return f"{value:,.{digits}f}"


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if not name.startswith("_")]
    if not names:
        return []
    return [[name.replace("_", " ") for name in names], *[[cell(row.get(name)) for name in names] for row in rows]]
