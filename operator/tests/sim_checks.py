"""What must hold of the made-up cluster: what the operator read before it did anything, and what is not as the spec asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from binshift_operator.kube import path_of
from binshift_operator.model.names import ANNOTATION_SPEC, Child, DataflowKey
from binshift_operator.observe import KINDS

if TYPE_CHECKING:
    from sim_cluster import SimCluster


def assert_read_first(requests: Sequence[str], key: DataflowKey) -> None:
    """In one look, whoever changes anything but the status has read every child before: nothing is done by what is remembered."""
    wanted = {f"GET {path_of(KINDS[child], key.namespace, key.child(child))}" for child in Child}
    for number, request in enumerate(requests):
        if not (request.startswith("GET ") or "/status" in request or "/events" in request):
            assert wanted <= set(requests[:number]), f"{request} was sent without a look at everything"


def problems(cluster: SimCluster) -> list[str]:
    """What is not as the spec asks for."""
    found = cluster.dataflow
    assert found is not None
    spec, kinds = found["spec"], {kind for kind, _, _ in cluster.server.objects}
    wrong = [f"there is no {kind}" for kind in sorted(set(KINDS.values()) - kinds)]
    executors, drivers = cluster.pods("executor"), cluster.pods("driver")
    if spec.get("suspend"):
        return wrong + (["pods are left"] if executors or drivers else [])
    count = spec["replicas"]
    if len(executors) != count or len(drivers) != 1:
        wrong.append(f"{len(executors)} executors and {len(drivers)} drivers")
    if cluster.log.holding != set(range(count)) or not cluster.log.settled:
        wrong.append(f"route {cluster.log.route}")
    hashes = {pod["metadata"]["annotations"][ANNOTATION_SPEC] for pod in executors + drivers}
    if len(hashes) > 1:
        wrong.append("pods of different specs")
    conditions = {each["type"]: each["status"] for each in cluster.status.get("conditions", [])}
    if conditions.get("Degraded") != "False" or conditions.get("Progressing") != "False":
        wrong.append(f"conditions {conditions}")
    return wrong
