"""The picture of a run: latency over time, and below it which worker held how many bins.

The two share their time axis, so that one sees what the stream felt while the bins moved. Changes are shaded from the
request to the moment they were settled. Drawn without a display (matplotlib's Agg).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from binshift.errors import InvalidSettings
from flights_demo.latency_log import Entry, LatencyLog
from flights_demo.scenario import Step
from openloop import Buckets

INK, FAINT, SHADE = "#222222", "#8a8a8a", "#f3e3c3"
P50, P99, MAX = "#1f6f8b", "#c8553d", "#d9b8ae"
WORKERS = ("#1f6f8b", "#6aa9a0", "#e0a458", "#b56576", "#6d597a", "#355070")


def draw(log: LatencyLog, steps: Sequence[Step], path: Path, title: str) -> None:
    """Draw to a PNG file.

    Raises:
        InvalidSettings: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InvalidSettings(
            "the plot needs matplotlib: use `make demo`, or pip install --no-deps -r requirements/demo.txt"
        ) from error
    figure = Figure(figsize=(11, 6.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _latency(top, log.buckets())
    _changes(top, bottom, steps)
    _bins(bottom, log.entries)
    top.set_title(title, loc="left", color=INK)
    bottom.set_xlabel("seconds after the replay began", color=INK)
    figure.savefig(path, format="png")


def _latency(axes: Any, buckets: Buckets) -> None:
    axes.plot(buckets.starts, buckets.max, color=MAX, linewidth=1.0, label="max")
    axes.plot(buckets.starts, buckets.p99, color=P99, linewidth=1.2, label="p99")
    axes.plot(buckets.starts, buckets.p50, color=P50, linewidth=1.6, label="p50")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("seconds from due to committed", color=INK)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=3, fontsize=9)
    _plain(axes)


def _changes(top: Any, bottom: Any, steps: Sequence[Step]) -> None:
    for step in steps:
        if step.span is None:
            continue
        begin, end = step.span
        for axes in (top, bottom):
            axes.axvspan(begin, end, color=SHADE, linewidth=0, zorder=0)
        text = f"{step.name}\n{step.bins} bins, {end - begin:.1f} s"
        place = top.get_xaxis_transform()
        top.text((begin + end) / 2, 0.97, text, transform=place, ha="center", va="top", fontsize=9, color=INK)


def _bins(axes: Any, entries: Sequence[Entry]) -> None:
    """Steps, as a bin is on one worker until the epoch in which it is on another."""
    shown = entries[sum(entry.at <= 0 for entry in entries[1:]) :]
    width = max((len(entry.bins) for entry in shown), default=0)
    if not width:
        return
    times = np.array([entry.at for entry in shown])
    counts = np.array([[*entry.bins, *([0] * (width - len(entry.bins)))] for entry in shown]).T
    colors = [WORKERS[slot % len(WORKERS)] for slot in range(width)]
    labels = [f"worker {slot}" for slot in range(width)]
    axes.stackplot(times, counts, step="post", colors=colors, labels=labels, linewidth=0)
    axes.set_ylabel("bins", color=INK)
    axes.set_xlim(0, times.max())
    axes.set_ylim(0, counts.sum(axis=0).max())
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False, ncols=width, fontsize=9)
    _plain(axes)


def _plain(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=FAINT)
