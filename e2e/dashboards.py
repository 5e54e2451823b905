"""The chart's dashboards, evaluated by a real Prometheus: which of their panels have nothing to show; and their pictures."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import draw_dashboard
from prometheus_ranges import Prometheus, Span

from prometheus import CHART, SCRAPE_SECONDS

DASHBOARDS = CHART / "dashboards"
PICTURES = "BINSHIFT_E2E_PICTURES"
"""Names a folder for pictures of the dashboards, if pictures are wanted."""
ROWS = {"dataflow": (("rescaling", ("Rescaling",)),)}
"""Pictures of parts: what it is called, and its rows."""
NOT_HERE = {
    "dataflow": {"Memory of workers", "Memory of the driver", "Watermark lag", "Copy lag", "Backlog"},
    "operator": {"Memory", "CPU", "Degraded, by reason", "Failures"},
}
"""Panels without data: the kubelet is not scraped, the example has no watermark, its bins are copied
within a scrape or two, its source knows no backlog, and nothing goes wrong."""
P99 = "max_over_time(dataflow:binshift_record_latency_seconds:p99[15m])"


def empty_panels(watched: Prometheus, name: str, namespace: str, dataflow: str, begun: float) -> set[str]:
    """Panels of a dashboard that have nothing to show of the time since ``begun``; draws it where pictures are wanted."""
    board = json.loads((DASHBOARDS / f"{name}.json").read_text(encoding="utf-8"))
    span = Span(begun, time.time(), float(SCRAPE_SECONDS))
    filling = draw_dashboard.Filling({"namespace": namespace, "dataflow": dataflow}, span, SCRAPE_SECONDS)
    shown = [(p["title"], draw_dashboard.series(watched, p, filling)) for p in board["panels"] if p["type"] != "row"]
    if PICTURES in os.environ:
        place = ["--namespace", namespace, "--dataflow", dataflow, "--start", f"{begun}"]
        for picture, rows in ((name, ()), *ROWS.get(name, ())):
            draw(watched, name, picture, [*place, *(word for row in rows for word in ("--row", row))])
    return {title for title, lines in shown if not lines}


def draw(watched: Prometheus, name: str, picture: str, options: Sequence[str]) -> None:
    """A dashboard, or a part of it, in a file of the folder for pictures."""
    out = Path(os.environ[PICTURES]) / f"dashboard-{picture}.png"
    arguments = ["--prometheus", watched.url, "--dashboard", str(DASHBOARDS / f"{name}.json"), "--out", str(out)]
    assert draw_dashboard.main([*arguments, "--scrape-seconds", f"{SCRAPE_SECONDS}", *options]) == 0
