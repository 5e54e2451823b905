"""Faults of the cluster's own processes; only on the node built here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from clusters import NODE, Cluster
from kube import Kube

DNS = "deployment/coredns"
ASKING = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")


def _end(name: str) -> None:
    subprocess.run([NODE, "end", name], check=True, timeout=60)


@contextmanager
def without_api_server(cluster: Cluster) -> Iterator[None]:
    """The API server is gone while in here, and back afterwards.

    With it start those of the cluster's own that retry with growing pauses of up to a minute: the node would
    be NotReady meanwhile, and neither DNS nor the proxy would know a new service. No container of a dataflow is touched.
    """
    assert cluster.own
    _end("kube-apiserver")
    try:
        yield
    finally:
        for name in ASKING:
            _end(name)
        subprocess.run([NODE, "up"], check=True, timeout=300, capture_output=True)
        kube = Kube(cluster.environment, "kube-system")
        kube("rollout", "restart", DNS)
        kube("rollout", "status", DNS, "--timeout=120s", seconds=130)
