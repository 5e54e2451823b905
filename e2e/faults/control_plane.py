"""Faults of the cluster's own processes; only on a node of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from clusters import NODE, Cluster


@contextmanager
def without_api_server(cluster: Cluster) -> Iterator[None]:
    """The API server is gone while in here, and back afterwards."""
    assert cluster.own
    subprocess.run([NODE, "end", "kube-apiserver"], check=True, timeout=60)
    try:
        yield
    finally:
        subprocess.run([NODE, "up"], check=True, timeout=300, capture_output=True)
