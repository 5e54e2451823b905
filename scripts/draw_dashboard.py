"""Draws a dashboard of the chart as a PNG, from what a Prometheus remembers: every panel at its place, in Grafana's proportions.

    .venv/bin/python scripts/draw_dashboard.py --prometheus http://127.0.0.1:9090 \
        --dashboard charts/binshift/dashboards/dataflow.json --out dataflow.png --namespace shop --dataflow clicks

So that documents can show a real run without a Grafana, and a test can see that every panel has something to show. Needs
matplotlib (`requirements/demo.txt`). Ends with 1 if the Prometheus does not answer.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panel_painters import INK, SHADE, Shown, legend, paint
from prometheus_ranges import Prometheus, Span, Unanswered

COLUMN_INCHES, UNIT_INCHES, COLUMNS = 0.62, 0.32, 24
LEFT, BOTTOM, TOP, RIGHT = 0.75, 0.62, 0.3, 0.6
"""Inches around the axes of a panel: for its scale, its legend, its title."""
POINTS = 240


@dataclass(frozen=True)
class Filling:
    """Values for Grafana's variables.

    Attributes:
        chosen: by name, the selected values.
        span: what is drawn.
        scrape_seconds: how often targets are scraped.
    """

    chosen: Mapping[str, str]
    span: Span
    scrape_seconds: float

    def filled(self, expression: str) -> str:
        """An expression without variables; `$__rate_interval` by Grafana's own rule."""
        interval = max(self.span.step + self.scrape_seconds, 4 * self.scrape_seconds)
        known = {
            **self.chosen,
            "__rate_interval": f"{math.ceil(interval)}s",
            "__range": f"{round(self.span.end - self.span.start)}s",
        }
        for name in sorted(known, key=len, reverse=True):
            expression = expression.replace(f"${name}", known[name])
        return expression


def series(prometheus: Prometheus, panel: Mapping[str, Any], filling: Filling) -> list[Shown]:
    """All series of a panel."""
    found = []
    for target in panel["targets"]:
        text = filling.filled(target["expr"])
        lines = prometheus.at(text, filling.span.end) if target["instant"] else prometheus.lines(text, filling.span)
        found += [Shown(legend(target["legendFormat"], line.labels), line) for line in lines]
    return found


def marks(prometheus: Prometheus, board: Mapping[str, Any], filling: Filling) -> list[tuple[float, float]]:
    """Spans in seconds from the beginning that annotations mark."""
    found = []
    for annotation in board["annotations"]["list"]:
        lines = prometheus.lines(filling.filled(annotation["expr"]), filling.span)
        on = [any(not math.isnan(line.values[n]) for line in lines) for n in range(len(filling.span.times))]
        found += spans(on, filling.span.step)
    return found


def spans(on: Sequence[bool], step: float) -> list[tuple[float, float]]:
    """From where to where something was on.

    >>> spans([False, True, True, False, True], 10.0)
    [(10.0, 30.0), (40.0, 50.0)]
    """
    found: list[tuple[float, float]] = []
    for number, each in enumerate(on):
        if each and found and found[-1][1] == number * step:
            found[-1] = (found[-1][0], (number + 1) * step)
        elif each:
            found.append((number * step, (number + 1) * step))
    return found


def chosen_panels(board: Mapping[str, Any], rows: Sequence[str]) -> list[dict[str, Any]]:
    """The panels to draw, moved up to where nothing is above them: all, or those below the lines with these titles."""
    found, below = [], ""
    for panel in board["panels"]:
        below = panel["title"] if panel["type"] == "row" else below
        if not rows or below in rows:
            found.append(panel)
    tops = sorted({panel["gridPos"]["y"] for panel in found})
    top, moved = 0, {}
    for at in tops:
        moved[at] = top
        top += max(panel["gridPos"]["h"] for panel in found if panel["gridPos"]["y"] == at)
    return [panel | {"gridPos": panel["gridPos"] | {"y": moved[panel["gridPos"]["y"]]}} for panel in found]


def draw(
    panels: Sequence[Mapping[str, Any]],
    shown: Iterable[Sequence[Shown]],
    marked: Sequence[tuple[float, float]],
    span: Span,
    out: Path,
) -> None:
    """Draw panels with their series into a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    units = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width, height = COLUMNS * COLUMN_INCHES, units * UNIT_INCHES
    figure = Figure(figsize=(width, height), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    for panel, lines in zip(panels, shown, strict=True):
        at = panel["gridPos"]
        x, y = at["x"] * COLUMN_INCHES, height - (at["y"] + at["h"]) * UNIT_INCHES
        w, h = at["w"] * COLUMN_INCHES, at["h"] * UNIT_INCHES
        if panel["type"] == "row":
            figure.text((x + 0.1) / width, (y + h / 2) / height, panel["title"], fontsize=12, color=INK, va="center")
            continue
        left = LEFT if panel["type"] != "bargauge" else 1.4
        inside = (x + left, y + BOTTOM, w - left - RIGHT, h - BOTTOM - TOP)
        axes = figure.add_axes((inside[0] / width, inside[1] / height, inside[2] / width, inside[3] / height))
        paint(axes, panel, lines, span)
        if lines and panel["type"] in ("timeseries", "state-timeline", "heatmap"):
            for begin, end in marked:
                axes.axvspan(begin, end, color=SHADE, alpha=0.45, linewidth=0, zorder=0)
    figure.savefig(out, format="png", metadata={"Software": None})


def main(arguments: Sequence[str]) -> int:
    """Draw the panels named on the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    board = json.loads(Path(options.dashboard).read_text(encoding="utf-8"))
    end = options.end or time.time()
    start = options.start or end - 60 * options.minutes
    span = Span(start, end, options.step or max(1.0, (end - start) / POINTS))
    filling = Filling({"namespace": options.namespace, "dataflow": options.dataflow}, span, options.scrape_seconds)
    prometheus, panels = Prometheus(options.prometheus.rstrip("/")), chosen_panels(board, options.row)
    try:
        shown = [[] if panel["type"] == "row" else series(prometheus, panel, filling) for panel in panels]
        marked = marks(prometheus, board, filling)
    except Unanswered as error:
        sys.stderr.write(f"draw_dashboard: {error}\n")
        return 1
    empty = [p["title"] for p, lines in zip(panels, shown, strict=True) if p["type"] != "row" and not lines]
    if empty:
        sys.stderr.write(f"draw_dashboard: nothing to show for {', '.join(empty)}\n")
    draw(panels, shown, marked, span, Path(options.out))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Draw a dashboard as a PNG from what a Prometheus remembers.")
    parser.add_argument("--prometheus", required=True, help="URL of the server")
    parser.add_argument("--dashboard", required=True, help="the dashboard's JSON file")
    parser.add_argument("--out", required=True, help="the PNG file")
    parser.add_argument("--namespace", default="default", help="value of the dashboard's variable")
    parser.add_argument("--dataflow", default="", help="value of the dashboard's variable")
    parser.add_argument("--minutes", type=float, default=30.0, help="how much is drawn, up to now or --end")
    parser.add_argument("--start", type=float, help="seconds since 1970, instead of --minutes")
    parser.add_argument("--end", type=float, help="seconds since 1970, instead of now")
    parser.add_argument("--step", type=float, help="seconds between two points")
    parser.add_argument("--scrape-seconds", type=float, default=15.0, help="how often targets are scraped")
    parser.add_argument("--row", action="append", default=[], help="only the panels below this line; may be repeated")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
