"""The minimal example as a workload: its own manifest, applied as a user would, in a size the node can carry.

A second pod of the spark image reads what the dataflow leaves on its volume, or on S3. It has no part in the
dataflow and outlives it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from checkers.pace import Commit
from clusters import ROOT
from kube import Kube, until

FOLDER = ROOT / "runtime" / "examples" / "minimal"
INSIDE = Path(__file__).parent / "inside"
FLIGHTS_REFERENCE = ROOT / "runtime" / "examples" / "flights" / "flights_demo" / "reference.py"
"""Pandas' answer, which `judge_flights.py` compares with."""
NAME = "minimal"
WATCHER = "watcher"
VOLUME = "/data"
"""Where the watcher has the dataflow's volume."""
ROWS_PER_SECOND = 2000
KEYS = 5000

SAFE: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
SAFE_POD: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "fsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the restricted Pod Security Standard requires."""


@dataclass(frozen=True)
class Judgement:
    """What came out.

    Attributes:
        commits: of all epochs.
        created: when the source's second 0 began.
        wrong: rows that are missing, doubled or have other values.
        examples: of them, as text.
    """

    commits: list[Commit]
    created: float
    wrong: int
    examples: list[str]


def objects(storage_class: str = "", **changes: Any) -> list[dict[str, Any]]:
    """The example's objects, with other fields in the dataflow's spec.

    Args:
        storage_class: of the volume, if not the default one.
        changes: merged into ``spec``.
    """
    claim, dataflow = yaml.safe_load_all((FOLDER / "manifest.yaml").read_text(encoding="utf-8"))
    if storage_class:
        claim["spec"]["storageClassName"] = storage_class
    # What a YAML anchor stands for would be one object in several places, and change in all of them.
    spec = dataflow["spec"] = json.loads(json.dumps(dataflow["spec"]))
    spec["application"]["args"] += ["--rows-per-second", str(ROWS_PER_SECOND), "--keys", str(KEYS)]
    # The judge reads Spark's logs at the end, so all of their entries must be kept.
    spec["sparkConf"]["spark.sql.streaming.minBatchesToRetain"] = "1000000"
    spec["bins"] = 1024
    _merge(spec, changes)
    return [claim, dataflow]


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def watcher(image: str, claim: str | None = NAME, secret: str | None = None) -> list[dict[str, Any]]:
    """A pod that only waits, with the scripts in it.

    Args:
        image: that it runs.
        claim: a volume that it mounts.
        secret: whose keys are variables in it.
    """
    scripts = {path.name: path.read_text(encoding="utf-8") for path in (*INSIDE.glob("*.py"), FLIGHTS_REFERENCE)}
    mounted: dict[str, dict[str, Any]] = {"/scripts": {"configMap": {"name": WATCHER}}, "/tmp": {"emptyDir": {}}}
    if claim:
        mounted[VOLUME] = {"persistentVolumeClaim": {"claimName": claim}}
    container: dict[str, Any] = {
        "name": "watcher",
        "image": image,
        "command": ["/usr/bin/tini", "--", "sleep", "infinity"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "envFrom": [{"secretRef": {"name": secret}}] if secret else [],
        "securityContext": SAFE,
        "volumeMounts": [{"name": path[1:], "mountPath": path} for path in mounted],
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": path[1:], **source} for path, source in mounted.items()],
        "securityContext": SAFE_POD,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": WATCHER}, "data": scripts},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": WATCHER}, "spec": spec},
    ]


def judge(
    kube: Kube, place: str = VOLUME, *, checkpoint: str = "checkpoint", results: str = "results", from_epoch: int = 0
) -> Judgement:
    """What a dataflow has put out so far, from an epoch on, where checkpoint and results are both in one place."""
    arguments = ["exec", WATCHER, "--", "python", "/scripts/judge.py", f"{place}/{checkpoint}", f"{place}/{results}"]
    arguments += ["--rows-per-second", str(ROWS_PER_SECOND), "--keys", str(KEYS), "--from-epoch", str(from_epoch)]
    answer = until("the judge's answer", 60, lambda: json.loads(kube(*arguments, seconds=120)))
    commits = [Commit(*each) for each in answer["epochs"]]
    return Judgement(commits, answer["created"], answer["wrong"], answer["examples"])
