"""Paints one panel of a Grafana dashboard with matplotlib, near enough to how Grafana does: a painter for each kind of panel.

A panel is an entry of the dashboard's JSON, with the series of its queries. Nothing here queries or decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_ranges import Line, Span

LEGEND_MAX = 6
INK, FAINT, SHADE = "#222222", "#8a8a8a", "#f7d9a8"
COLORS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#37872d", "#fade2a", "#1f60c4", "#fa6400")
NAMED = {"light-blue": "#8ab8ff", "blue": "#3274d9", "light-orange": "#ffb357", "orange": "#e0701a", "red": "#e02f44"}
SCALES = {
    "s": ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")),
    "bytes": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "short": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")),
}
UNITS = {
    "s": ("s", ""),
    "bytes": ("bytes", ""),
    "Bps": ("bytes", "/s"),
    "rowsps": ("short", " rows/s"),
    "ops": ("short", "/s"),
}


@dataclass(frozen=True)
class Shown:
    """A series of a panel, with its name in the legend."""

    name: str
    line: Line


def formatted(value: float, unit: str) -> str:
    """A value as Grafana formats it.

    >>> formatted(0.25, "s"), formatted(90.0, "s"), formatted(3 * 2**20, "Bps"), formatted(1234.0, "rowsps"), formatted(math.nan, "s")
    ('250 ms', '1.5 min', '3 MiB/s', '1.23 k rows/s', '-')
    """
    if math.isnan(value):
        return "-"
    scale, suffix = UNITS.get(unit, ("short", ""))
    size, name = next((each for each in SCALES[scale] if abs(value) >= each[0]), SCALES[scale][-1])
    if value == 0:
        size, name = 1, next(name for size, name in SCALES[scale] if size == 1)
    return f"{value / size:.3g} {name}".strip() + suffix


def legend(template: str, labels: Mapping[str, str]) -> str:
    """The name of a series.

    >>> legend("worker {{worker}}", {"worker": "3"})
    'worker 3'
    """
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), template)


def paint(axes: Any, panel: Mapping[str, Any], shown: Sequence[Shown], span: Span) -> None:
    """Paint a panel.

    Raises:
        KeyError: there is no painter for its kind.
    """
    axes.set_title(panel["title"], loc="left", fontsize=9, color=INK, fontweight="bold")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=7, colors=FAINT)
    if shown or panel["type"] == "stat":
        PAINTERS[panel["type"]](axes, panel, shown, span)
        return
    axes.text(0.5, 0.5, "no data", ha="center", va="center", transform=axes.transAxes, fontsize=9, color=FAINT)
    axes.set_xticks([])
    axes.set_yticks([])


def _timeseries(axes: Any, panel: Mapping[str, Any], shown: Sequence[Shown], span: Span) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    right: Any = None
    times = [each - span.start for each in span.times]
    chosen = {name: _overrides(panel, name) for name in {each.name for each in shown}}
    if "stacking" in defaults["custom"]:
        colors = [COLORS[number % len(COLORS)] for number in range(len(shown))]
        values = [[0.0 if math.isnan(v) else v for v in each.line.values] for each in shown]
        if values:
            axes.stackplot(times, values, labels=[each.name for each in shown], colors=colors, alpha=0.75)
    else:
        for number, each in enumerate(shown):
            special = chosen[each.name]
            if special.get("custom.axisPlacement") == "right" and right is None:
                right = axes.twinx()
                _values(right, special.get("unit", defaults["unit"]))
            fixed = special.get("color", {}).get("fixedColor")
            (right if special.get("custom.axisPlacement") == "right" else axes).plot(
                times, each.line.values, label=each.name, linewidth=1.3,
                color=NAMED.get(fixed, COLORS[number % len(COLORS)]), linestyle="--" if "custom.lineStyle" in special else "-",
            )  # fmt: skip
    _time(axes, span)
    _values(axes, defaults["unit"])
    _legend(axes, [each for each in (axes, right) if each is not None], panel, shown)


def _legend(axes: Any, parts: Sequence[Any], panel: Mapping[str, Any], shown: Sequence[Shown]) -> None:
    """Below the panel, as wide as it is; of many series only the ones with a value above zero."""
    named = {name: handle for part in parts for handle, name in zip(*part.get_legend_handles_labels(), strict=True)}
    if len(named) > LEGEND_MAX:
        something = {each.name for each in shown if any(value > 0 for value in each.line.values)}
        named = {name: handle for name, handle in named.items() if name in something}
    if named:
        where = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": max(3, panel["gridPos"]["w"] // 4)}
        axes.legend(named.values(), named.keys(), fontsize=7, frameon=False, **where)


def _overrides(panel: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A panel's text for one series."""
    found = [each for each in panel["fieldConfig"]["overrides"] if each["matcher"]["options"] == name]
    return {each["id"]: each["value"] for one in found for each in one["properties"]}


def _stat(axes: Any, panel: Mapping[str, Any], shown: Sequence[Shown], span: Span) -> None:
    unit, options = panel["fieldConfig"]["defaults"]["unit"], panel["options"]
    present = [each for each in shown if each.line.values and not math.isnan(each.line.values[-1])]
    texts = [each.name if options["textMode"] == "name" else formatted(each.line.last, unit) for each in present]
    if options["textMode"] == "value_and_name":
        texts = [f"{word} {each.name}" for word, each in zip(texts, present, strict=True)]
    text = ", ".join(texts) or panel["fieldConfig"]["defaults"].get("noValue", "no data")
    axes.text(
        0.5,
        0.42,
        text,
        ha="center",
        va="center",
        transform=axes.transAxes,
        fontsize=17 if len(text) < 14 else 12,
        color=INK,
    )
    axes.set_axis_off()


def _state_timeline(axes: Any, panel: Mapping[str, Any], shown: Sequence[Shown], span: Span) -> None:
    for row, each in enumerate(shown):
        on = [(t - span.start, span.step) for t, v in zip(span.times, each.line.values, strict=True) if v >= 1]
        axes.broken_barh(on, (row - 0.4, 0.8), color=NAMED["blue"], alpha=0.8, linewidth=0)
    axes.set_yticks(range(len(shown)), [each.name for each in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    _time(axes, span)


def _heatmap(axes: Any, panel: Mapping[str, Any], shown: Sequence[Shown], span: Span) -> None:
    ordered = sorted(shown, key=lambda each: float(each.line.labels["le"].replace("+Inf", "inf")))
    below, cells = [0.0] * len(span.times), []
    for each in ordered:
        values = [0.0 if math.isnan(v) else v for v in each.line.values]
        cells.append([max(0.0, now - under) for now, under in zip(values, below, strict=True)])
        below = values
    if cells:
        edges = [t - span.start for t in (*span.times, span.end + span.step)]
        axes.pcolormesh(edges, range(len(cells) + 1), cells, cmap="Blues")
    axes.set_yticks([number + 1 for number in range(len(ordered))], [each.name for each in ordered], fontsize=6)
    _time(axes, span)


def _bars(axes: Any, panel: Mapping[str, Any], shown: Sequence[Shown], span: Span) -> None:
    unit, values = panel["fieldConfig"]["defaults"]["unit"], [each.line.last for each in shown]
    for row, value in enumerate(values):
        axes.barh(row, 0.0 if math.isnan(value) else value, color=NAMED["blue"], alpha=0.7)
        axes.annotate(
            formatted(value, unit),
            (0, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color=INK,
        )
    axes.set_yticks(range(len(shown)), [each.name for each in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xticks([])


def _time(axes: Any, span: Span) -> None:
    axes.set_xlim(0, span.end - span.start)
    axes.xaxis.set_major_formatter(lambda x, _: f"{int(x) // 60}:{int(x) % 60:02}")
    axes.grid(axis="x", color="#eeeeee", linewidth=0.6)


def _values(axes: Any, unit: str) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda y, _: formatted(y, unit))
    axes.tick_params(labelsize=7, colors=FAINT)


PAINTERS: Mapping[str, Callable[[Any, Mapping[str, Any], Sequence[Shown], Span], None]] = {
    "timeseries": _timeseries,
    "stat": _stat,
    "state-timeline": _state_timeline,
    "heatmap": _heatmap,
    "bargauge": _bars,
}
