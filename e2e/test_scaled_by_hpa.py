"""The autoscalers of the guide: the API server takes their manifests, and the HPA controller scales a dataflow with one, up and down."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guide_manifests import AUTOSCALERS, manifests

from clusters import NODE
from dataflow import Dataflow
from kube import until
from stage import MINIMAL_IMAGE, Stage
from story import Story
from test_scaled_by_load import EXECUTORS, HIGH, LOW, complete, executors, feeding, inside, set_rate, stepped
from workloads import metrics_adapter

MANIFESTS = manifests(AUTOSCALERS)
STABILIZATION_SECONDS = 30
LATENCY_TARGET = "10s"
"""Long enough that rows alone, and not a busy node, are a reason to grow."""
DOWNLOAD_SECONDS_MAX = 600.0


def test_the_manifests_are_valid(module_scene: Stage) -> None:
    """The API server takes the HPA, and with KEDA's own definition the ScaledObject; a field that does not exist is an error."""
    kube = module_scene.kube
    definition = subprocess.run(
        [NODE, "keda"], stdout=subprocess.PIPE, text=True, check=True, timeout=DOWNLOAD_SECONDS_MAX
    ).stdout.strip()
    kube("apply", "--server-side", "--filename", definition)
    try:
        until("KEDA's definition", 60, lambda: kube("get", "scaledobjects") is not None)
        for each in MANIFESTS.values():
            if isinstance(each, dict):
                kube("create", "--dry-run=server", "--validate=strict", "--filename", "-", stdin=json.dumps(each))
        wrong = MANIFESTS["ScaledObject"] | {"spec": MANIFESTS["ScaledObject"]["spec"] | {"minReplicas": 1}}
        refused = kube.refused(
            "create", "--dry-run=server", "--validate=strict", "--filename", "-", stdin=json.dumps(wrong)
        )
        assert "minReplicas" in refused
    finally:
        kube("delete", "--filename", definition, "--ignore-not-found")


def quick(hpa: dict[str, Any]) -> dict[str, Any]:
    """The guide's HPA for a story: it shrinks sooner, and to fewer executors at once."""
    made: dict[str, Any] = json.loads(json.dumps(hpa))
    made["spec"]["maxReplicas"] = EXECUTORS
    policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
    made["spec"]["behavior"]["scaleDown"] = {"stabilizationWindowSeconds": STABILIZATION_SECONDS, "policies": policies}
    return made


@pytest.fixture
def recommending(scene: Stage, tmp_path: Path) -> Iterator[Dataflow]:
    """A dataflow in mode Recommend with a low load, and its gauge as an External metric."""
    dataflow = stepped(scene, mode="Recommend")
    dataflow.edit(migration={"latencyTarget": LATENCY_TARGET})
    hpa = quick(MANIFESTS["HorizontalPodAutoscaler"])
    (metric,) = hpa["spec"]["metrics"]
    scene.kube.apply(
        *metrics_adapter.objects(scene.kube, MINIMAL_IMAGE, metric["external"]["metric"]["name"], tmp_path)
    )
    try:
        metrics_adapter.await_available(scene.kube)
        until("the pod that watches", 120, lambda: inside(scene.kube, "true") == "")
        with feeding(scene.kube, LOW):
            dataflow.await_condition("Ready")
            dataflow.await_epochs(10)
            scene.kube.apply(hpa)
            yield dataflow
    finally:
        scene.kube.delete("apiservice", metrics_adapter.API_SERVICE)


def has_grown(dataflow: Dataflow) -> int | None:
    """How many executors there are, once they are more than one and hold the bins."""
    wanted, holding, pods = executors(dataflow)
    return wanted if wanted == holding == pods > 1 else None


def test_scaled_by_an_hpa(recommending: Dataflow, scene: Stage, story: Story) -> None:
    """Eight times the load and back: the HPA controller edits ``replicas`` to what the driver recommends; every row is counted once."""
    hpa = "hpa", "minimal"
    until("the HPA's metric", 120, lambda: _is_active(scene.kube.get(*hpa)))
    until("one executor", 120, lambda: executors(recommending) == (1, 1, 1))
    set_rate(scene.kube, HIGH)
    grown = until("more executors", 400, lambda: has_grown(recommending))
    assert recommending.object["spec"]["replicas"] == grown <= EXECUTORS
    set_rate(scene.kube, LOW)
    until("one executor", 400, lambda: executors(recommending) == (1, 1, 1))
    assert recommending.object["spec"]["replicas"] == 1
    assert "Autoscaled" not in recommending.events()
    set_rate(scene.kube, 0)
    judged = until("every row", 120, lambda: complete(scene.kube), every=3)
    story.note(f"1 to {grown} to 1 executors, {judged['files']} files")


def _is_active(hpa: dict[str, Any]) -> bool:
    """Whether the HPA controller has a metric to scale by."""
    conditions = hpa["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("ScalingActive", "True") for each in conditions)
