"""What a user creates on a real API server besides a dataflow, as its spec names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim_editor import SECRET_DATA, complete_status, lent_secrets

from binshift_operator.kube import Kube
from binshift_operator.model.names import API_VERSION, SNAPSHOT_KIND


def lend(kube: Kube, namespace: str, spec: Mapping[str, Any]) -> None:
    """The Secrets that it names, and the complete snapshot that the checkpoint begins with."""
    snapshot = ((spec.get("checkpoint") or {}).get("restoreFrom") or {}).get("snapshot")
    for secret in lent_secrets(spec):
        if kube.get("Secret", namespace, secret) is None:
            meta = {"name": secret, "namespace": namespace}
            kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": dict(SECRET_DATA)})
    if snapshot and kube.get(SNAPSHOT_KIND, namespace, snapshot) is None:
        meta = {"name": snapshot, "namespace": namespace}
        made = {"apiVersion": API_VERSION, "kind": SNAPSHOT_KIND, "metadata": meta}
        kube.create({**made, "spec": {"dataflow": "another"}})
        kube.apply({**made, "status": complete_status(snapshot)}, "status")
