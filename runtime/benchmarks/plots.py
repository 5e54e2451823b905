"""Plots of the results, drawn from the JSON without a display.

Latency over time is the worst of every 250 ms, of rows by their due time; the shade is from the request to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from archive import Row

INK, FAINT, SHADE = "#222222", "#8a8a8a", "#f3e3c3"
OURS, OTHER, LIGHT = "#1f6f8b", "#c8553d", "#d9b8ae"
TICKS = (0.1, 0.2, 0.5, 1, 2, 5)
PHASES = (("start", "#f7ecd6"), ("register", "#f3e3c3"), ("warm", "#ecd3a4"), ("copy", "#d8e4e6"), ("flip", "#b9d2d6"))


def draw(name: str, rows: Sequence[Row], folder: Path) -> Path | None:
    """The plot of a benchmark; None if it has none, or no results."""
    painter = PAINTERS.get(name)
    return None if painter is None or not rows else plotted(painter, rows, folder / f"bench-{name}.png")


def plotted(painter: Callable[[Any, Sequence[Row]], None], rows: Sequence[Row], path: Path) -> Path:
    """Draw rows into a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    painter(figure, rows)
    figure.savefig(path, format="png", metadata={"Software": None})
    return path


def _move(figure: Any, rows: Sequence[Row]) -> None:
    """A column for each number of keys, a row for each strategy; out and back, side by side in time."""
    out = [row for row in rows if row["to"] == 4]
    strategies = list(dict.fromkeys(row["strategy"] for row in out))
    sizes = sorted({row["keys"] for row in out})
    figure.set_size_inches(10, 2.1 * len(strategies) + 0.6)
    grid = figure.subplots(len(strategies), len(sizes), squeeze=False, sharey=True)
    for line, strategy in enumerate(strategies):
        for column, keys in enumerate(sizes):
            axes = grid[line][column]
            of_these = [row for row in out if (row["strategy"], row["keys"]) == (strategy, keys)]
            for row in sorted(of_these, key=lambda row: row["pre_copy"]):
                color, label = (OURS, "with pre-copy") if row["pre_copy"] else (LIGHT, "without")
                axes.plot(*points(row), color=color, linewidth=1.3, label=label)
                axes.axvspan(0, row["_took"], color=color, alpha=0.13, linewidth=0)
            titled(axes, f"{strategy}, {keys:,} keys", "worst latency, s" if column == 0 else "")
            legend(axes, 2)
    for axes in grid[-1]:
        axes.set_xlabel("seconds after the request", color=INK)


def _scale(figure: Any, rows: Sequence[Row]) -> None:
    for axes, row in zip(_side_by_side(figure, len(rows)), rows, strict=True):
        axes.plot(*points(row), color=OURS, linewidth=1.3)
        at = 0.0
        for phase, color in PHASES:
            took = row.get(f"{phase}_s") or 0.0
            axes.axvspan(at, at + took, color=color, linewidth=0, label=phase if took else None, zorder=0)
            at += took
        titled(axes, f"scale {row['to']}, {row['keys']:,} keys", "worst latency, s")
        axes.set_xlabel("seconds after the command", color=INK)
        legend(axes, len(PHASES))


def _respark(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    for row in rows:
        label = "Spark: stop, repartition, start" if row["system"] == "spark" else "binshift"
        axes.plot(*points(row), color=OTHER if row["system"] == "spark" else OURS, linewidth=1.5, label=label)
    axes.set_yscale("log")
    titled(axes, f"2 to 4 workers, {rows[0]['keys']:,} keys", "worst latency, s (log)", zero=False)
    axes.set_xlabel("seconds after the request", color=INK)
    legend(axes, 4)


def _calm(figure: Any, rows: Sequence[Row]) -> None:
    """Dots, not bars: on a logarithmic scale the length of a bar has no meaning."""
    axes = figure.subplots()
    for place, row in enumerate(reversed(rows)):
        color = OURS if "bins" in row["system"] else OTHER
        axes.plot([row["p50_s"], row["p99_s"]], [place, place], color=color, linewidth=1, alpha=0.5)
        axes.plot([row["p50_s"]], [place], "o", color=color)
        axes.plot([row["p99_s"]], [place], "o", color=color, markerfacecolor="white")
        label = f"{row['p50_s']:.3f} s, p99 {row['p99_s']:.3f} s"
        axes.annotate(label, (row["p99_s"], place), (8, -3), textcoords="offset points", fontsize=8, color=INK)
    axes.set_yticks(range(len(rows)), [row["system"] for row in reversed(rows)])
    axes.set_xscale("log")
    axes.set_xlim(0.09, 3 * max(row["p99_s"] for row in rows))
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.set_xticks([], minor=True)
    axes.grid(axis="x", alpha=0.3)
    titled(axes, "a calm epoch, from trigger to commit: median and p99, seconds (log)", "", zero=False)


def _bins(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    ordered = sorted(rows, key=lambda row: row["bins"])
    at = [math.log2(row["bins"]) for row in ordered]
    for column, color in (("p50_s", OURS), ("p99_s", LIGHT)):
        axes.plot(at, [row[column] for row in ordered], "o-", color=color, label=column[:3])
    axes.set_xticks(at, [f"{row['bins']:,}" for row in ordered])
    titled(axes, "a calm epoch by the number of bins, two workers", "seconds")
    axes.set_xlabel("bins", color=INK)
    legend(axes, 4)


def _state(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    for to, color, way in ((4, OURS, "out"), (2, OTHER, "back")):
        some = sorted((row for row in rows if row["to"] == to), key=lambda row: row["keys"])
        at = [math.log2(row["keys"]) for row in some]
        axes.plot(at, [row["moving_max_s"] for row in some], "o-", color=color, label=f"worst while moving, {way}")
        axes.plot(
            at, [row["calm_p99_s"] for row in some], "o--", color=color, alpha=0.5, label=f"calm p99 before, {way}"
        )
        axes.set_xticks(at, [f"{row['keys']:,}\n{row['bins']:,} bins" for row in some])
    titled(axes, "record latency as the state grows, bins growing alike", "seconds")
    legend(axes, 4)


def _epoch(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    parts = rows[:-1][::-1]
    axes.barh([row["part"] for row in parts], [row["mean_ms"] for row in parts], color=OURS)
    for place, row in enumerate(parts):
        axes.text(
            max(0.0, row["mean_ms"]), place, f"  {row['mean_ms']:.1f} ms, {row['share']}", va="center", fontsize=8
        )
    titled(axes, f"where a calm epoch of {rows[-1]['mean_ms']:.0f} ms goes, mean", "", zero=False)


def points(row: Row) -> tuple[list[float], list[float]]:
    """Latency over time: seconds after the request, and the worst latency then."""
    return [point[0] for point in row["_latency"]], [point[1] for point in row["_latency"]]


def legend(axes: Any, columns: int) -> None:
    """Above the axes, where it hides nothing."""
    axes.legend(
        frameon=False,
        fontsize=8,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=columns,
        columnspacing=0.9,
        handlelength=1.2,
        borderaxespad=0,
    )


def _side_by_side(figure: Any, count: int) -> list[Any]:
    return list(figure.subplots(1, count, squeeze=False, sharey=True)[0])


def titled(axes: Any, title: str, label: str, zero: bool = True) -> None:
    """Title and axes in the common style; with ``zero``, the scale begins at 0."""
    axes.set_title(title, loc="left", color=INK, fontsize=10)
    axes.set_ylabel(label, color=INK)
    if zero and axes.lines:  # of all plots that share the axis, not of the first
        highest = max(float(y) for line in axes.lines for y in line.get_ydata())
        axes.set_ylim(0, max(1.08 * highest, axes.get_ylim()[1] if axes.get_ylim()[0] == 0 else 0))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=FAINT)


PAINTERS: Mapping[str, Callable[[Any, Sequence[Row]], None]] = {
    "move": _move,
    "scale": _scale,
    "respark": _respark,
    "calm": _calm,
    "bins": _bins,
    "state": _state,
    "epoch": _epoch,
}
