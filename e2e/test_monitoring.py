"""What keeps a production in sight: the chart's own test, and a real Prometheus with the chart's PodMonitors, rules and dashboards."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import draw_dashboard
from prometheus_ranges import Prometheus, Span

import prometheus
import stage
from kube import until
from prometheus import CHART, SCRAPE_SECONDS
from stage import Stage
from story import Story

DASHBOARDS = CHART / "dashboards"
PICTURES = "BINSHIFT_E2E_PICTURES"
"""Names a folder for pictures of the dashboards, if somebody wants them."""
NOT_HERE = {
    "dataflow": {"Memory of workers", "Memory of the driver", "Watermark lag"},
    "operator": {"Memory", "CPU", "Degraded, by reason", "Failures"},
}
"""Panels without anything to show: nobody scrapes the kubelet, the example has no watermark, and nothing goes wrong."""
P99 = "max_over_time(dataflow:binshift_record_latency_seconds:p99[15m])"


def test_helm_test(scene: Stage) -> None:
    """`helm test` finds the operator well, with a pod that the restricted standard lets in."""
    scene.system.helm("test", stage.RELEASE, "--timeout", "150s")


def empty_panels(watched: Prometheus, name: str, namespace: str, dataflow: str, begun: float) -> set[str]:
    """Panels of a dashboard that have nothing to show of the time since ``begun``; draws it where pictures are wanted."""
    board = json.loads((DASHBOARDS / f"{name}.json").read_text(encoding="utf-8"))
    span = Span(begun, time.time(), float(SCRAPE_SECONDS))
    filling = draw_dashboard.Filling({"namespace": namespace, "dataflow": dataflow}, span, SCRAPE_SECONDS)
    shown = [(p["title"], draw_dashboard.series(watched, p, filling)) for p in board["panels"] if p["type"] != "row"]
    if PICTURES in os.environ:
        out = Path(os.environ[PICTURES]) / f"{name}.png"
        options = ["--prometheus", watched.url, "--dashboard", str(DASHBOARDS / f"{name}.json"), "--out", str(out)]
        place = [
            "--namespace",
            namespace,
            "--dataflow",
            dataflow,
            "--start",
            f"{begun}",
            "--scrape-seconds",
            f"{SCRAPE_SECONDS}",
        ]
        assert draw_dashboard.main([*options, *place]) == 0
    return {title for title, lines in shown if not lines}


def test_watched(scene: Stage, told: Story, tmp_path: Path) -> None:
    """A Prometheus finds drivers and operator by the PodMonitors; a rescale shows in rules and on both dashboards, and alarms nobody."""
    dataflow = scene.apply()
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    with prometheus.watching(scene.kube, stage.SYSTEM, tmp_path) as watched:
        begun = time.time()
        until("both targets", 60, lambda: {line.labels["job"] for line in watched.at("up == 1", time.time())}
              == {"binshift-dataflow", "binshift-operator"})  # fmt: skip
        dataflow.await_epochs(15)
        with told.act():
            dataflow.scale(4)
            dataflow.await_settled()
        dataflow.await_epochs(10)
        latency = {line.labels["moving"]: line for line in watched.at(P99, time.time())}
        assert {"true", "false"} == latency.keys()
        assert {line.labels["dataflow"] for line in latency.values()} == {dataflow.name}
        assert empty_panels(watched, "dataflow", scene.kube.namespace, dataflow.name, begun) <= NOT_HERE["dataflow"]
        assert empty_panels(watched, "operator", stage.SYSTEM, "", begun) <= NOT_HERE["operator"]
        firing = {name for name, state in prometheus.alerts(watched).items() if state == "firing"}
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples
    assert firing <= {"BinshiftLatencyWhileMoving"}, (
        "on two busy cores bins may move at a latency of more than two seconds"
    )
