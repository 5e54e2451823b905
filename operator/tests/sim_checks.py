"""Invariants of the simulated cluster: what the operator read before it acted, and what differs from the spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from binshift_operator.kube import path_of
from binshift_operator.model.names import ANNOTATION_DATAFLOW, ANNOTATION_SPEC, Child, DataflowKey

if TYPE_CHECKING:
    from sim_cluster import SimCluster


def assert_read_first(requests: Sequence[str], key: DataflowKey) -> None:
    """In one reconciliation, every child is read before anything but the status is changed: no action relies on a cache."""
    wanted = {f"GET {path_of(child.kind, key.namespace, key.child(child))}" for child in Child}
    for number, request in enumerate(requests):
        if not (request.startswith("GET ") or "/status" in request or "/events" in request):
            assert wanted <= set(requests[:number]), f"{request} was sent before everything was read"


def problems(cluster: SimCluster) -> list[str]:
    """What differs from the spec."""
    found = cluster.dataflow
    spec, kinds = found["spec"], {kind for kind, _, _ in cluster.server.objects}
    wrong = [f"there is no {kind}" for kind in sorted({child.kind for child in Child} - kinds)]
    executors, drivers = cluster.pods("executor"), cluster.pods("driver")
    if spec.get("suspend"):
        return wrong + (["pods are left"] if executors or drivers else [])
    count = spec["replicas"]
    if len(executors) != count or len(drivers) != 1:
        wrong.append(f"{len(executors)} executors and {len(drivers)} drivers")
    if cluster.log.holding != set(range(count)) or not cluster.log.settled:
        wrong.append(f"route {cluster.log.route}")
    hashes = {pod["metadata"]["annotations"][ANNOTATION_SPEC] for pod in executors}
    classes = {pod["metadata"]["annotations"][ANNOTATION_DATAFLOW] for pod in executors + drivers}
    if len(hashes) > 1 or len(classes) > 1:
        wrong.append("pods of different specs")
    conditions = {each["type"]: each["status"] for each in cluster.status.get("conditions", [])}
    if conditions.get("Degraded") != "False" or conditions.get("Progressing") != "False":
        wrong.append(f"conditions {conditions}")
    return wrong
