"""The flights example as a workload: its own manifest, as it is."""

from __future__ import annotations

import json
from typing import Any

import yaml

from clusters import ROOT
from kube import Kube
from workloads.minimal import WATCHER

FOLDER = ROOT / "runtime" / "examples" / "flights"
NAME = "flights"


def objects(storage_class: str = "") -> list[dict[str, Any]]:
    """The example's objects."""
    claim, *others = yaml.safe_load_all((FOLDER / "manifest.yaml").read_text(encoding="utf-8"))
    if storage_class:
        claim["spec"]["storageClassName"] = storage_class
    return [claim, *others]


def judge(kube: Kube) -> dict[str, Any]:
    """What differs between the dataflow's answer so far and pandas'."""
    arguments = ["exec", WATCHER, "--", "python", "/scripts/judge_flights.py"]
    output = kube(*arguments, "/data/flights", "/data/checkpoint", "/data/results", seconds=180)
    answer: dict[str, Any] = json.loads(output)
    return answer
