"""A driver whose traffic is encrypted is scraped by https, and every other one as before."""

from __future__ import annotations

import re
from typing import Any

import pytest
from test_chart_rendered import MONITORED, rendered
from test_children_rendering import pods
from tools import tool

pytestmark = pytest.mark.chart


@pytest.mark.parametrize(
    ("spec", "scheme"), [({}, "http"), ({"spec.encryption": {"secretName": "clicks-tls"}}, "https")]
)
def test_the_scheme_follows_from_the_pod(spec: dict[str, Any], scheme: str) -> None:
    """Prometheus finds it by the annotation that the operator puts on the pod, and checks no certificate."""
    monitor = rendered(tool("helm"), *MONITORED)["PodMonitor", "binshift-dataflow"]["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    (relabeling,) = (each for each in endpoint["relabelings"] if each["targetLabel"] == "__scheme__")
    found = {
        f"__meta_kubernetes_pod_annotation_{re.sub('[^a-zA-Z0-9_]', '_', name)}": value
        for name, value in pods(spec)[0]["metadata"]["annotations"].items()
    }
    (source,) = relabeling["sourceLabels"]
    matches = re.fullmatch(relabeling["regex"], found.get(source, "")) is not None
    assert (relabeling["replacement"] if matches else "http") == scheme
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
