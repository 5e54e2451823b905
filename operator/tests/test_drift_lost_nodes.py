"""Lost nodes, with the default limits: how long until a pod is replaced without manual action."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sim_cluster import NAME, NS, SimCluster
from sim_server import stamp
from test_decide import FLOW, LIMITS, NOW, SETTLED, observed, pod

from binshift_operator.children.environment import DRIVER_GRACE_SECONDS, GRACE_SECONDS
from binshift_operator.children.pods import LOST_NODE_TAINTS
from binshift_operator.decide import decide
from binshift_operator.model.actions import DeletePod
from binshift_operator.model.pods import Pod
from binshift_operator.model.situation import Timeouts

MONITOR_SECONDS = 40
"""After which Kubernetes takes a node for lost that does not report (node-monitor-grace-period; 50 from 1.32 on)."""
REPLACED_SECONDS_MAX = 105
"""From the loss of a node to a new pod in place of the driver's: the sum of the defaults, and some reconciliations."""


def start_cluster() -> SimCluster:
    """A dataflow that has come up, under an operator with its defaults."""
    cluster = SimCluster().start(2)
    cluster.converge()
    cluster.reconciler.timeouts = Timeouts()
    return cluster


def uid_of(cluster: SimCluster, name: str) -> str:
    """The UID of the pod of that name; empty if there is none."""
    found = cluster.server.objects.get(("Pod", NS, name))
    return "" if found is None else str(found["metadata"]["uid"])


def seconds_until_replaced(cluster: SimCluster, name: str) -> int:
    """Lose the pod's node, and let Kubernetes and the operator do what they do."""
    key = ("Pod", NS, name)
    lost = uid_of(cluster, name)
    cluster.lost.add(lost)
    cluster.queries.pop(lost, None)
    for second in range(1, 400):
        cluster.run(1)
        if uid_of(cluster, name) not in ("", lost):
            return second
        if uid_of(cluster, name) == lost:
            node_controller(cluster, cluster.server.objects[key], second)
    raise AssertionError(f"{name} was not replaced: {cluster.status}")


def node_controller(cluster: SimCluster, found: dict[str, Any], second: int) -> None:
    """Kubernetes' part: the pod is not ready, and deleted once it has tolerated the node's taint for long enough."""
    if second < MONITOR_SECONDS:
        return
    conditions = found["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    (tolerated,) = (each for each in found["spec"]["tolerations"] if each["key"] == LOST_NODE_TAINTS[1])
    if second >= MONITOR_SECONDS + tolerated["tolerationSeconds"]:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"})
        cluster.server.remove(("Pod", NS, found["metadata"]["name"]))


def test_a_drivers_node_is_lost() -> None:
    """The driver's pod is replaced within the sum of the defaults, and the stream continues."""
    cluster = start_cluster()
    assert seconds_until_replaced(cluster, "clicks-driver-0") <= REPLACED_SECONDS_MAX
    cluster.converge()


def test_a_drivers_node_is_lost_while_its_pod_ends() -> None:
    """A pod that was already being deleted, for whatever reason, is replaced as soon as one that was not."""
    cluster = start_cluster()
    cluster.server.remove(("Pod", NS, "clicks-driver-0"))
    assert seconds_until_replaced(cluster, "clicks-driver-0") <= REPLACED_SECONDS_MAX
    cluster.converge()


def test_an_executors_node_is_lost() -> None:
    """An executor's pod is replaced as soon; the stream does not wait for it."""
    cluster = start_cluster()
    epoch = cluster.log.epoch
    assert seconds_until_replaced(cluster, "clicks-executor-1") <= REPLACED_SECONDS_MAX
    assert cluster.log.epoch > epoch + 60
    cluster.converge()


def test_a_pod_that_finalizers_keep_is_deleted_once() -> None:
    """A pod that stays after its forced deletion is not deleted repeatedly; what keeps it is reported, and it is replaced once free."""
    cluster = start_cluster()
    stuck = ("Pod", NS, "clicks-executor-1")
    found, remove = cluster.server.objects[stuck], cluster.server.remove
    found["metadata"]["finalizers"] = ["example.com/backup"]
    cluster.lost.add(found["metadata"]["uid"])

    def kept(key: tuple[str, str, str], *, at_once: bool = False) -> None:
        if key != stuck or not at_once:
            return remove(key, at_once=at_once)
        found["metadata"] |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 0}
        return None

    deleted = stamp(cluster.now)
    remove(stuck)
    cluster.server.remove = kept  # type: ignore[method-assign]
    cluster.run(GRACE_SECONDS + 60)
    cluster.server.writes.clear()
    cluster.run(200)
    assert not [write for write in cluster.server.writes if "/pods/" in write]
    assert sum("/events" in write for write in cluster.server.writes) == 1, "that it is Degraded, and nothing else"
    assert (cluster.reconciler.reconcile(NS, NAME).requeue_after or 0) >= 1
    (degraded,) = (each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "NotDeleted"
    assert "example.com/backup" in degraded["message"]
    remove(stuck, at_once=True)
    cluster.converge()


@pytest.mark.parametrize(
    ("driver", "more", "heard", "after"),
    [
        (True, {}, False, DRIVER_GRACE_SECONDS + 30),
        (True, {"node_lost": True}, False, 30),
        (True, {"node_lost": True}, True, DRIVER_GRACE_SECONDS + 30),
        (False, {}, True, GRACE_SECONDS + 30),
        (False, {"node_lost": True}, True, 30),
        (False, {"node_lost": True, "ready": True}, True, GRACE_SECONDS + 30),
    ],
)
def test_a_living_pod_keeps_its_grace(driver: bool, more: dict[str, Any], heard: bool, after: int) -> None:
    """A pod is deleted by force once its kubelet must have ended it, sooner only if its node is lost and it is not heard of."""
    grace = DRIVER_GRACE_SECONDS if driver else GRACE_SECONDS

    def forced(seconds: float) -> bool:
        ending: Pod = pod(
            0 if driver else 1,
            driver,
            **{"deleting_since": NOW - seconds, "grace_seconds": grace, "ready": False, **more},
        )
        others = tuple(each for each in observed().pods if each.name != ending.name)
        seen = observed(runtime={"registered": frozenset({0})}, pods=(ending, *others))
        seen = seen if heard else replace(seen, runtime=None)
        return any(isinstance(each, DeletePod) and each.force for each in decide(FLOW, seen, SETTLED, LIMITS).actions)

    assert forced(after + 1)
    assert not forced(after - 1)
