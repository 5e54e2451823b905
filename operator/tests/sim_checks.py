"""Invariants of the simulated cluster: what the operator read before it acted, and what differs from the spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from binshift_operator.children import hash_keys, read_keys
from binshift_operator.kube import path_of
from binshift_operator.model.names import (
    ANNOTATION_DATAFLOW,
    ANNOTATION_SPEC,
    LABEL_COMPONENT,
    LABEL_UID,
    Child,
    DataflowKey,
)

if TYPE_CHECKING:
    from sim_cluster import SimCluster


def drivers_of(dataflow: Mapping[str, Any]) -> int:
    """How many drivers a dataflow is to have."""
    return 2 if ((dataflow.get("spec") or {}).get("driver") or {}).get("standby") else 1


def assert_read_first(requests: Sequence[str], key: DataflowKey, dataflow: Mapping[str, Any]) -> None:
    """In one reconciliation, every child is read before anything but the status is changed: no action relies on a cache."""
    unused = () if drivers_of(dataflow) > 1 else (Child.DRIVER_DISRUPTION_BUDGET,)
    children = (child for child in Child if child not in unused)
    wanted = {f"GET {path_of(child.kind, key.namespace, key.child(child))}" for child in children}
    for number, request in enumerate(requests):
        if not (request.startswith("GET ") or "/status" in request or "/events" in request):
            assert wanted <= set(requests[:number]), f"{request} was sent before everything was read"


def assert_may_go(
    cluster: SimCluster, pod: Mapping[str, Any], dataflow: Mapping[str, Any] | None, secret: Mapping[str, Any] | None
) -> None:
    """An executor's pod may be removed only if no query runs, or it holds no bins and is to hold none; a driver's, once its
    query has stopped, unless it could not be asked to.
    """
    meta, log = pod["metadata"], cluster.log
    running = [query for query in cluster.queries.values() if query.state == "Running"]
    if not running or log.target is None or meta["uid"] in cluster.lost:
        return
    if dataflow is None or meta["labels"][LABEL_UID] != dataflow["metadata"]["uid"]:
        return  # everything goes with its dataflow
    if meta["labels"][LABEL_COMPONENT] == "driver":
        locked_out = secret is None or hash_keys(read_keys(secret) or {}) != running[0].keys
        spoken_to = cluster.now - cluster.heard < 1 and not locked_out
        assert not spoken_to or "deletionTimestamp" in meta, "a driver is taken while its query runs"
        return
    slot = int(meta["name"].rpartition("-")[2])
    assert slot not in log.holding, f"executor {slot} is taken while it holds bins"
    if pod["status"].get("phase") != "Running":
        return  # it has never run
    assert slot not in log.target["workers"], f"executor {slot} is taken while bins may come to it"
    held = log.left.get(slot, -1) < log.epoch
    assert held, f"executor {slot} is taken in the epoch in which its last bin left, which may be replayed"


def problems(cluster: SimCluster) -> list[str]:
    """What differs from the spec."""
    found = cluster.dataflow
    spec, kinds = found["spec"], {kind for kind, _, _ in cluster.server.objects}
    wrong = [f"there is no {kind}" for kind in sorted({child.kind for child in Child} - kinds)]
    executors, drivers = cluster.pods("executor"), cluster.pods("driver")
    if spec.get("suspend"):
        return wrong + (["pods are left"] if executors or drivers else [])
    count = (cluster.status.get("autoscaling") or {}).get("desiredReplicas") or spec["replicas"]
    if len(executors) != count or len(drivers) != drivers_of(found):
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
