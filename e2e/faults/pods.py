"""Faults of pods and containers."""

from __future__ import annotations

import contextlib
import json
import subprocess

from kube import Kube, Refused, until


def kill_pod(kube: Kube, name: str) -> None:
    """The pod is gone at once, as if its node had lost power."""
    kube.delete("pod", name, wait=False, grace=0)


def delete_pod(kube: Kube, name: str) -> None:
    """The pod is told to end, and given its time to."""
    kube.delete("pod", name, wait=False)


def evict_pod(kube: Kube, name: str) -> None:
    """Through the eviction API, as `kubectl drain` does: disruption budgets are asked."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": kube.namespace}}
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{name}/eviction"
    kube("create", "--raw", path, "--filename", "-", stdin=json.dumps(eviction))


def restarts(kube: Kube, pod: str, container: str) -> int:
    """How often a container was started again."""
    statuses = kube.get("pod", pod)["status"]["containerStatuses"]
    return next(int(each["restartCount"]) for each in statuses if each["name"] == container)


def kill_container(kube: Kube, pod: str, container: str) -> None:
    """Every process of one container is killed; the pod and its other containers go on. Returns when it runs again."""
    before = restarts(kube, pod, container)
    # The first process cannot be killed from inside, and ends when its child has.
    with contextlib.suppress(Refused, subprocess.TimeoutExpired):
        kube("exec", pod, "--container", container, "--", "sh", "-c", "kill -9 -1", seconds=10)
    until(f"a new {container} in {pod}", 60, lambda: restarts(kube, pod, container) > before)
