"""Sentences about results, computed from the figures, so that a page cannot state what was not measured. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tables import cell
from targets import Row

from nexmark.figures.ways import ALL_AT_ONCE, PREPARED


def between(values: Iterable[float], unit: str = "") -> str:
    """The range of some figures.

    >>> between([1.234, 10.5]), between([2.0], " s"), between([])
    ('1.234 to 10.5', '2.00 s', 'not measured')
    """
    known = sorted(values)
    if not known:
        return "not measured"
    ends = dict.fromkeys(cell(float(each)) for each in (known[0], known[-1]))
    return " to ".join(ends) + unit


def of(rows: Sequence[Row], column: str, when: Callable[[Row], bool] = lambda row: True) -> list[float]:
    """The figures of a column in some rows."""
    return [row[column] for row in rows if when(row) and row.get(column) is not None]


def way(name: str) -> Callable[[Row], bool]:
    """Whether a row is of the way, or of the kind of run, with this name."""
    return lambda row: bool(row["strategy"] == name)


def is_prepared(row: Row) -> bool:
    """Whether a row is of a way for which the targets hold."""
    return row["strategy"] in PREPARED


is_at_once = way(ALL_AT_ONCE.name)
"""Whether a row is of the way that the papers compare with."""


def spikes(rows: Sequence[Row]) -> str:
    """The spikes of prepared moves, next to those of moves all at once."""
    return (
        f"The worst record of the median prepared move is {between(of(rows, 'spike_median', is_prepared))} times as late as the calm "
        f"p99, that of the worst one {between(of(rows, 'spike_worst', is_prepared))} times; all at once, the median is "
        f"{between(of(rows, 'spike_median', is_at_once))} times."
    )
