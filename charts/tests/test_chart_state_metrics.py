"""The configuration for kube-state-metrics: what it reads is in the definitions, and the chart ships it with the rights that it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
import shipped
import yaml
from test_chart_rendered import rendered
from tools import tool

from binshift_operator.model.names import GROUP, KIND, SNAPSHOT_KIND, VERSION
from binshift_operator.model.snapshots import SnapshotPhase
from binshift_operator.model.status import Phase

TEXT = (shipped.CHART / "kube-state-metrics.yaml").read_text(encoding="utf-8")
RESOURCES: list[dict[str, Any]] = yaml.safe_load(TEXT)["spec"]["resources"]
SCHEMAS: dict[str, dict[str, Any]] = {}
for path in sorted((shipped.CHART / "crds").iterdir()):
    definition = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
    SCHEMAS[definition["names"]["kind"]] = definition
METADATA = {"properties": {name: {"type": "string"} for name in ("name", "namespace")} | {"generation": {}}}
PATH = {"type": "array", "items": {"type": "string"}, "minItems": 1}
LABELS = {"type": "object", "additionalProperties": PATH}
OF_TYPES = {
    "gauge": {"path": PATH, "valueFrom": PATH, "labelsFromPath": LABELS},
    "info": {"labelsFromPath": LABELS},
    "stateSet": {"path": PATH, "labelName": {"type": "string"}, "list": PATH},
}
EACH = {
    "type": "object",
    "required": ["type"],
    "maxProperties": 2,
    "minProperties": 2,
    "additionalProperties": False,
    "properties": {"type": {"enum": ["Gauge", "Info", "StateSet"]}}
    | {name: {"type": "object", "additionalProperties": False, "properties": each} for name, each in OF_TYPES.items()},
}
"""Names that kube-state-metrics does not know would be ignored without a word."""


def paths(metric: Mapping[str, Any]) -> Iterator[list[str]]:
    """Every path that a metric reads, from the object's root."""
    (each,) = (value for name, value in metric["each"].items() if name != "type")
    root = each.get("path", [])
    yield root + each.get("valueFrom", [])
    yield from (root + path for path in each.get("labelsFromPath", {}).values())


def field(schema: Mapping[str, Any], path: list[str]) -> Mapping[str, Any]:
    """The schema of a field; KeyError if there is none. Of a list, its items."""
    for name in path:
        schema = schema.get("items", schema)["properties"][name]
    return schema


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each["groupVersionKind"]["kind"])
def test_every_path_is_in_the_definition(resource: dict[str, Any]) -> None:
    """Every field that becomes a metric or a label is a field of the resource, of a type that can be one."""
    kind = resource["groupVersionKind"]["kind"]
    schema = SCHEMAS[kind]["versions"][0]["schema"]["openAPIV3Schema"]
    schema = {"properties": schema["properties"] | {"metadata": METADATA}}
    for metric in resource["metrics"]:
        jsonschema.validate(metric["each"], EACH)
        for path in paths(metric):
            assert path == [] or field(schema, path).get("type") != "object", path
    assert all(field(schema, path)["type"] == "string" for path in resource["labelsFromPath"].values())


def test_both_kinds_are_reported() -> None:
    """The resources are those of the operator, and each metric has a name of its own and a text."""
    kinds = [each["groupVersionKind"] for each in RESOURCES]
    assert kinds == [{"group": GROUP, "version": VERSION, "kind": kind} for kind in (KIND, SNAPSHOT_KIND)]
    assert [each["resourcePlural"] for each in RESOURCES] == [
        SCHEMAS[each["kind"]]["names"]["plural"] for each in kinds
    ]
    names = [f"{each['metricNamePrefix']}_{metric['name']}" for each in RESOURCES for metric in each["metrics"]]
    assert len(names) == len(set(names))
    assert all(re.fullmatch("[a-z][a-z_]*", name) for name in names)
    assert all(metric["help"] for each in RESOURCES for metric in each["metrics"])


def test_phases_are_those_of_the_operator() -> None:
    """A set of states has every phase that the operator writes."""
    for resource, phases in zip(RESOURCES, (Phase, SnapshotPhase), strict=True):
        (found,) = (metric["each"]["stateSet"] for metric in resource["metrics"] if "stateSet" in metric["each"])
        assert found["list"] == [each.value for each in phases]


@pytest.mark.chart
def test_the_chart_ships_it() -> None:
    """It is off by default; enabled, it is in a ConfigMap, and the named ServiceAccount can list what it reports."""
    helm, name = tool("helm"), ("ConfigMap", "binshift-kube-state-metrics")
    assert name not in rendered(helm)
    given = {"enabled": True, "namespace": "monitoring", "serviceAccount": "ksm"}
    found = rendered(helm, monitoring__kubeStateMetrics=given)
    assert found[name]["metadata"]["namespace"] == "monitoring"
    assert yaml.safe_load(found[name]["data"]["config.yaml"]) == yaml.safe_load(TEXT)
    role = found["ClusterRole", "binshift-system-binshift-kube-state-metrics"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    assert set(role["rules"][0]["resources"]) == {each["resourcePlural"] for each in RESOURCES}
    (subject,) = found["ClusterRoleBinding", role["metadata"]["name"]]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "ksm", "namespace": "monitoring"}
    alone = rendered(helm, monitoring__kubeStateMetrics={"enabled": True})
    assert name in alone
    assert ("ClusterRole", role["metadata"]["name"]) not in alone
