"""What is in the images, and what is not; checked from inside a pod that is as restricted as the dataflow's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube import Kube, until
from stage import MINIMAL_IMAGE, OPERATOR_IMAGE, Stage
from workloads.minimal import SAFE, SAFE_POD

LOOK = """
import importlib.util, json, os, pathlib, shutil, tempfile
def writable(path):
    try:
        tempfile.TemporaryFile(dir=path).close()
        return True
    except OSError:
        return False
compiled = pathlib.Path(importlib.util.cache_from_source(json.__file__))
print(json.dumps({
    "user": os.getuid(), "group": os.getgid(), "first": pathlib.Path("/proc/1/comm").read_text().strip(),
    "tools": [t for t in ("pip", "pip3", "gcc", "cc", "make", "git", "curl", "uv") if shutil.which(t)],
    "modules": [m for m in ("pip", "setuptools", "wheel", "ensurepip") if importlib.util.find_spec(m)],
    "writable": [p for p in ("/", "/app", "/opt/binshift", "/etc", "/tmp") if writable(p)],
    "compiled": compiled.exists(), "java": bool(shutil.which("java")), "spark": bool(importlib.util.find_spec("pyspark")),
}))
"""


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


@pytest.mark.parametrize(
    ("image", "spark"), [(OPERATOR_IMAGE, False), (MINIMAL_IMAGE, True)], ids=["operator", "spark"]
)
def test_image(scene: Stage, image: str, spark: bool) -> None:
    """User 10001, tini, a root file system that cannot be written to, no build tools; Java and Spark where they belong (in every user's image)."""
    found = inspect_image(scene.kube, "spark" if spark else "operator", image)
    assert found == {
        "user": 10001,
        "group": 10001,
        "first": "tini",
        "tools": [],
        "modules": [],
        "writable": ["/tmp"],
        "compiled": True,
        "java": spark,
        "spark": spark,
    }


def inspect_image(kube: Kube, name: str, image: str) -> dict[str, object]:
    """What `LOOK` prints in a pod of the image."""
    container: dict[str, Any] = {
        "name": "look",
        "image": image,
        "args": ["python", "-c", LOOK],
        "securityContext": SAFE,
    }
    container |= {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never", "securityContext": SAFE_POD}
    spec |= {"volumes": [{"name": "tmp", "emptyDir": {}}], "automountServiceAccountToken": False}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    until("the end of the pod", 60, lambda: kube.get("pod", name)["status"]["phase"] in ("Succeeded", "Failed"))
    answer: dict[str, object] = json.loads(kube("logs", name))
    return answer
