"""Transient problems of pods are reported once they have lasted, with the remedy."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import SimCluster
from sim_limits import LIMITS as SIM_LIMITS
from test_decide import FLOW, LIMITS, NOW, SETTLED, condition, observed, pod
from test_pod_state import pod as read_pod
from test_pod_state import waiting

from binshift_operator.decide import decide
from binshift_operator.model.pods import PodState
from binshift_operator.model.status import Condition, ConditionType
from binshift_operator.pod_state import parse_pod


def degraded(slot: int = 1, **more: Any) -> Condition:
    """The condition of a dataflow one of whose executors is like that."""
    pods = (pod(0, driver=True), *(pod(each, **(more if each == slot else {})) for each in (0, 1)))
    return condition(decide(FLOW, observed(pods=pods), SETTLED, LIMITS).status, ConditionType.DEGRADED)


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (PodState.UNSCHEDULABLE, LIMITS.unplaced_seconds),
        (PodState.NOT_STARTED, LIMITS.unplaced_seconds),
        (PodState.EVICTED, LIMITS.unplaced_seconds),
        (PodState.IMAGE, LIMITS.pods_wait_seconds),
        (PodState.CRASHING, 0.0),
        (PodState.CONFIG, 0.0),
        (PodState.OUT_OF_MEMORY, 0.0),
    ],
)
def test_it_is_reported_once_it_lasts(state: PodState, after: float) -> None:
    """An autoscaler of nodes and a busy registry get their time; what does not end by itself is reported at once."""
    assert degraded(state=state, state_since=NOW - after - 1).status is True
    if after:
        assert degraded(state=state, state_since=NOW - after + 1).status is False


def test_a_pod_without_a_node() -> None:
    """The message has the duration, the effect, the scheduler's message, and the remedies."""
    found = degraded(
        state=PodState.UNSCHEDULABLE, state_since=NOW - 200, message="0/5 nodes are available: 5 Insufficient memory."
    )
    assert found.message == (
        "Pod clicks-executor-1 has had no node for 3 min; 2 of 2 executors are registered. The scheduler: 0/5 nodes are available: "
        "5 Insufficient memory. Add nodes, lower spec.replicas, or lower executor.resources.requests"
    )


def test_a_scale_up_of_nodes_is_no_trouble() -> None:
    """Executors that wait for new nodes for a while are not reported; the awaited reason names them."""
    cluster = SimCluster().start(2)
    cluster.converge()
    cluster.no_room = {2, 3}
    cluster.edit(replicas=4)
    for _ in range(int(SIM_LIMITS.unplaced_seconds) - 2):
        cluster.run(1)
        (found,) = (each for each in cluster.status["conditions"] if each["type"] == "Degraded")
        assert found["status"] == "False"
    (progress,) = (each for each in cluster.status["conditions"] if each["type"] == "Progressing")
    assert "Executors 2, 3 have not registered (pod clicks-executor-2: Unschedulable" in progress["message"]
    cluster.run(10)
    (found,) = (each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert (found["status"], found["reason"]) == ("True", "Unschedulable")
    cluster.converge()


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        ([{"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:10:00Z"}], 600.0),
        ([], 300.0),
    ],
)
def test_since_when(conditions: list[dict[str, str]], since: float) -> None:
    """The time is that of the pod's own condition, else that of its creation."""
    meta = {"name": "clicks-executor-1", "uid": "p", "creationTimestamp": "1970-01-01T00:05:00Z"}
    waits = [{"name": "worker", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    found = parse_pod({"metadata": meta, "status": {"conditions": conditions, "containerStatuses": waits}}, 1000.0)
    assert (found.state, found.state_since) == (PodState.NOT_STARTED, since)


def first(reason: str = "", message: str = "") -> dict[str, Any]:
    """The status of a pod whose init container waits, or runs if there is no reason to wait."""
    state = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {}}
    init = {"name": "vault", "image": "img:2", "state": state}
    return {"initContainerStatuses": [init], **waiting("PodInitializing")}


@pytest.mark.parametrize(
    ("status", "state", "message"),
    [
        (first("ImagePullBackOff", "Back-off"), PodState.IMAGE, "img:2"),
        (first("CrashLoopBackOff"), PodState.CRASHING, "container vault crashes repeatedly"),
        (first(), PodState.NOT_STARTED, "containers worker: PodInitializing"),
        (first() | waiting("ImagePullBackOff"), PodState.IMAGE, "img:1"),
    ],
)
def test_init_containers_are_seen(status: dict[str, Any], state: PodState, message: str) -> None:
    """What keeps an init container or a sidecar from running is the pod's trouble, too."""
    found = read_pod(status)
    assert (found.state, message in found.message) == (state, True), found
