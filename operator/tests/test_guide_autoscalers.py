"""The autoscalers of the guide fit what they scale and what they read; `e2e/test_scaled_by_hpa.py` runs them."""

from __future__ import annotations

import re
from typing import Any

import promql_parser
import pytest
from guide_manifests import AUTOSCALERS, manifests
from guides import ROOT
from test_crd import CRD
from test_guide_commands import METRICS

FOUND = manifests(AUTOSCALERS)
HPA, KEDA, (RULE,) = FOUND["HorizontalPodAutoscaler"]["spec"], FOUND["ScaledObject"]["spec"], FOUND[""]
GAUGE = "binshift_recommended_workers"
LABELS = {"namespace", "dataflow"}


def selected(query: str) -> list[tuple[str, set[str]]]:
    """The metrics in a query, each with the labels that it is selected by."""
    found = re.findall(r"(binshift_\w+)\{([^}]*)\}", promql_parser.parse(query).prettify())
    return [(name, set(re.findall(r"(\w+)!?=", labels))) for name, labels in found]


@pytest.mark.parametrize("target", [HPA["scaleTargetRef"], KEDA["scaleTargetRef"]], ids=["hpa", "keda"])
def test_a_dataflow_is_scaled(target: dict[str, str]) -> None:
    """By its scale subresource, in a version that is served."""
    spec = CRD["spec"]
    served = {each["name"]: each for each in spec["versions"] if each["served"]}
    group, version = target["apiVersion"].split("/")
    assert (group, target["kind"]) == (spec["group"], spec["names"]["kind"])
    assert served[version]["subresources"]["scale"]["specReplicasPath"] == ".spec.replicas"


def test_both_read_the_gauge() -> None:
    """Of one dataflow, by labels that the chart's PodMonitor gives it; one executor for each recommended one."""
    (metric,) = HPA["metrics"]
    (trigger,) = KEDA["triggers"]
    assert GAUGE in METRICS
    assert metric["external"]["metric"]["name"] == GAUGE
    assert metric["external"]["metric"]["selector"]["matchLabels"].keys() == {"dataflow"}
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "1"}
    assert selected(trigger["metadata"]["query"]) == [(GAUGE, LABELS)]
    assert selected(RULE["seriesQuery"]) == [(GAUGE, LABELS)]
    query = (
        RULE["metricsQuery"].replace("<<.Series>>", GAUGE).replace("<<.LabelMatchers>>", 'namespace="a",dataflow="b"')
    )
    assert selected(query) == [(GAUGE, LABELS)]
    assert trigger["metadata"]["threshold"] == "1"
    monitors = (ROOT / "charts" / "binshift" / "templates" / "podmonitors.yaml").read_text(encoding="utf-8")
    assert "targetLabel: dataflow" in monitors


def test_neither_removes_all_executors() -> None:
    """Not by its range, and not where the gauge is missing."""
    assert HPA["minReplicas"] == KEDA["minReplicaCount"] == 1
    assert KEDA["triggers"][0]["metadata"]["ignoreNullValues"] == "false"


def test_executors_stay_through_a_short_low() -> None:
    """As long as with `mode: Auto`, by default."""
    behaviors: list[Any] = [HPA["behavior"], KEDA["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]]
    assert behaviors[0] == behaviors[1]
    assert behaviors[0]["scaleDown"]["stabilizationWindowSeconds"] == 300
