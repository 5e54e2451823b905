"""What the plots of the experiments have in common: colours by way, latency over time, and a figure against a size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from plots import INK, LIGHT, OTHER, OURS, points, titled
from targets import Row

COLORS = {
    "all-at-once": OTHER,
    "fluid": LIGHT,
    "batched": "#6a994e",
    "optimized": OURS,
    "spark": "#7a5195",
    "killed in calm times": OTHER,
    "killed while bins move": OURS,
}

CUT = 4
"""A curve that lasts so many times as long as the second longest is not shown to its end."""


def color(name: str) -> str:
    """Of a way; its name may have more text behind a comma."""
    return COLORS.get(name.partition(",")[0], INK)


def over_time(figure: Any, rows: Sequence[Row], by: str, columns: int = 2) -> None:
    """Latency over time: a plot for each value of a column, a line for each way, on a logarithmic scale."""
    names = list(dict.fromkeys(str(row[by]) for row in rows))
    lines = math.ceil(len(names) / columns)
    figure.set_size_inches(10, 2.3 * lines + 0.4)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for axes, name in zip(grid.flat, names, strict=False):
        some = [row for row in rows if str(row[by]) == name]
        for row in some:
            axes.plot(*points(row), color=color(row["strategy"]), linewidth=1.2, label=row["strategy"])
        axes.axvline(0, color=INK, linewidth=0.6)
        axes.set_yscale("log")
        plain_numbers(axes.yaxis)
        titled(axes, name + _cut(axes, some), "worst latency, s", zero=False)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("seconds after the request", color=INK)
    shared_legend(figure, grid[0][0])


def _cut(axes: Any, rows: Sequence[Row]) -> str:
    """Leave out the end of what takes much longer than all others; the text for the title."""
    ends = sorted((points(row)[0][-1], row["strategy"], row["seconds"]) for row in rows)
    if len(ends) < 2 or ends[-1][0] <= CUT * ends[-2][0]:
        return ""
    axes.set_xlim(right=CUT * ends[-2][0])
    _, strategy, seconds = ends[-1]
    return f" ({strategy}: {seconds:.0f} s)"


def plain_numbers(axis: Any) -> None:
    """Numbers without exponents at a logarithmic axis: 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def shared_legend(figure: Any, axes: Any) -> None:
    """One legend for all plots of a figure, below them."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=8)


def against(axes: Any, rows: Sequence[Row], x: str, y: str, by: Callable[[Row], str], mark: str = "o-") -> None:
    """One line for each kind of row."""
    for name in dict.fromkeys(by(row) for row in rows):
        some = sorted((row for row in rows if by(row) == name and row.get(y) is not None), key=lambda row: row[x])
        axes.plot(
            [row[x] for row in some], [row[y] for row in some], mark, color=color(some[0]["strategy"]), label=name
        )
