"""Faults of pods and containers."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator

from kube import Kube, Refused, until


def kill_pod(kube: Kube, name: str) -> None:
    """The pod is gone at once, as if its node had lost power."""
    kube.delete("pod", name, wait=False, grace=0)


def delete_pod(kube: Kube, name: str) -> None:
    """The pod is deleted with its grace period."""
    kube.delete("pod", name, wait=False)


def evict_pod(kube: Kube, name: str) -> None:
    """Through the eviction API, as `kubectl drain` does: disruption budgets apply."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": kube.namespace}}
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{name}/eviction"
    kube("create", "--raw", path, "--filename", "-", stdin=json.dumps(eviction))


def restarts(kube: Kube, pod: str, container: str) -> int:
    """How often a container was started again."""
    statuses = kube.get("pod", pod)["status"]["containerStatuses"]
    return next(int(each["restartCount"]) for each in statuses if each["name"] == container)


@contextlib.contextmanager
def frozen(kube: Kube, *places: tuple[str, str]) -> Iterator[None]:
    """Stop every process of these (pod, container) but the first, and continue them at the end."""
    for pod, container in places:
        _signal(kube, pod, container, "STOP")
    try:
        yield
    finally:
        for pod, container in places:
            _signal(kube, pod, container, "CONT")


def kill_python(kube: Kube, pod: str) -> None:
    """The Python processes of an executor are killed, the workers and the daemon that starts them; the next task finds none."""
    find = (
        "import os, pathlib; [os.kill(int(p.name), 9) for p in pathlib.Path('/proc').iterdir() if p.name.isdigit() and "
    )
    find += "p.name != str(os.getpid()) and b'pyspark.daemon' in (p / 'cmdline').read_bytes()]"
    kube("exec", pod, "--", "python", "-c", find)


HOG = """
import os, pathlib
pathlib.Path('/proc/1/oom_score_adj').write_text('1000')
held = os.memfd_create('hog')
while True:
    os.write(held, bytes(16 << 20))
"""
"""Fills the container's memory with a file that no process maps, so that the kernel kills the first process and not this one.

The kernel kills the process with the highest sum of mapped memory and score adjustment. Pods have an adjustment of nearly 1000
(quality of service "Burstable"), so a process that mapped the memory would have the highest sum.
"""


def exhaust_memory(kube: Kube, pod: str, container: str) -> None:
    """The container runs out of memory, and the kernel kills it. Returns when it runs again."""
    before = restarts(kube, pod, container)
    with contextlib.suppress(Refused, subprocess.TimeoutExpired):
        kube("exec", pod, "--container", container, "--", "python", "-c", HOG, seconds=60)
    until(f"a new {container} in {pod}", 60, lambda: restarts(kube, pod, container) > before)


def _signal(kube: Kube, pod: str, container: str, name: str) -> None:
    kube("exec", pod, "--container", container, "--", "sh", "-c", f"kill -{name} -1")


def kill_container(kube: Kube, pod: str, container: str) -> None:
    """Every process of one container is killed; the pod and its other containers continue. Returns when it runs again."""
    before = restarts(kube, pod, container)
    # The first process cannot be killed from inside, and ends when its child has.
    with contextlib.suppress(Refused, subprocess.TimeoutExpired):
        kube("exec", pod, "--container", container, "--", "sh", "-c", "kill -9 -1", seconds=10)
    until(f"a new {container} in {pod}", 60, lambda: restarts(kube, pod, container) > before)
