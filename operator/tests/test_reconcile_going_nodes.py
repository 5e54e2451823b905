"""Executors leave a node that is about to go, in a simulated cluster: as in a roll, each holds nothing when it is deleted.

`sim_checks.assert_may_go` holds throughout: no executor is removed that holds bins, may get some, or lost its last one in this epoch.
"""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import NAME, NS
from sim_limits import LIMITS
from sim_nodes import CA, events, node_cluster, progressing, run_until_settled
from sim_rolling import PLACES, assert_never_stopped, condition, query, uids
from sim_runtime import BINS


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "going",
    [
        {"unschedulable": True},
        {"taints": [CA]},
        {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
        {"taints": [{"key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule"}]},
    ],
    ids=["cordon", "autoscaler", "karpenter", "older karpenter"],
)
def test_executors_leave(replicas: int, going: dict[str, Any]) -> None:
    """All executors leave a node that is cordoned or announced to be removed; the query runs, and each bin moves about once."""
    cluster = node_cluster(replicas)
    before, driver, epoch, began = uids(cluster), uids(cluster, "driver"), cluster.log.epoch, cluster.now
    cluster.change_node("first", **going)
    bins = run_until_settled(cluster)
    assert cluster.on("first") == set()
    assert cluster.on("second") == set(range(replicas))
    assert not before & uids(cluster)
    assert_never_stopped(cluster, driver, epoch, cluster.now - began)
    assert bins <= (replicas + 1) / replicas * BINS + PLACES * (replicas + 1)
    cluster.converge()
    assert "rollout" not in cluster.status


def test_only_these_executors_leave() -> None:
    """Executors on other nodes stay: their bins and pods are not touched, but for the share that the surge passes on."""
    cluster = node_cluster(4, second=2, third=10)
    cluster.server.remove(("Pod", NS, f"{NAME}-executor-1"))
    cluster.converge()
    (moved_slot,) = cluster.on("third")
    cluster.cordon("third")
    kept = {pod["metadata"]["uid"] for pod in cluster.pods("executor") if pod["spec"]["nodeName"] == "first"}
    bins = run_until_settled(cluster)
    assert moved_slot in cluster.on("first") | cluster.on("second")
    assert kept <= uids(cluster)
    assert bins <= 2 / 4 * BINS + 2 * PLACES


def test_status_and_events_name_the_node() -> None:
    """Progressing has the reason RollingExecutors, its message and an event name the node, and why each pod is deleted."""
    cluster = node_cluster()
    cluster.cordon("first")
    cluster.run(3)
    assert progressing(cluster)["reason"] == "RollingExecutors"
    assert progressing(cluster)["message"].startswith("executors leave first (cordoned); 0 of 3 executors are updated")
    assert cluster.status["rollout"] == {"updated": 0, "total": 3, "leavingNodes": ["first"]}
    run_until_settled(cluster)
    leaving = "executors leave node first, which is cordoned or about to be removed"
    assert events(cluster, "ExecutorsLeavingNode") == [leaving]
    assert len(events(cluster, "ExecutorsRolled")) == 1
    deleted = "it holds no bins, and its node first is about to go (cordoned)"
    assert sorted(events(cluster, "PodReplaced")) == [
        f"pod {NAME}-executor-{slot} is deleted: {deleted}" for slot in range(3)
    ]
    assert progressing(cluster)["reason"] == "Settled"


def test_without_room_nothing_moves() -> None:
    """Without room for the surge, every executor keeps its bins and its pod, the reason is reported, and room ends the wait."""
    cluster = node_cluster(second=0)
    before, route = uids(cluster), dict(cluster.log.route)
    cluster.cordon("first")
    cluster.run(int(LIMITS.unplaced_seconds) + 10)
    assert before <= uids(cluster)
    assert cluster.log.route == route
    assert progressing(cluster)["reason"] == "RollingExecutors"
    for part in ("executors leave first (cordoned)", "Executor 3 has not registered", "0/1 nodes"):
        assert part in progressing(cluster)["message"]
    assert condition(cluster, "Ready")["status"] == "True"
    assert condition(cluster, "Degraded")["reason"] == "Unschedulable"
    assert "executors leave first once it is registered" in condition(cluster, "Degraded")["message"]
    assert "uncordon that node" in condition(cluster, "Degraded")["message"]
    cluster.room["second"] = 4
    run_until_settled(cluster)
    assert cluster.on("second") == {0, 1, 2}
    assert condition(cluster, "Degraded")["status"] == "False"


def test_a_surge_without_room_does_not_block_a_drain() -> None:
    """After the wait for executors, the disruption budget counts the surge as absent, so that the node's evictions are granted."""
    cluster = node_cluster(second=0)
    budget = ("PodDisruptionBudget", NS, f"{NAME}-executor")
    cluster.cordon("first")
    cluster.run(4)
    assert cluster.server.objects[budget]["spec"]["maxUnavailable"] == 1
    cluster.run(int(LIMITS.registration_wait_seconds) + 4)
    assert cluster.server.objects[budget]["spec"]["maxUnavailable"] == 2
    cluster.uncordon("first")
    cluster.converge()
    assert cluster.server.objects[budget]["spec"]["maxUnavailable"] == 1


def test_room_for_one() -> None:
    """Room for the surge alone: the first executor hands over and waits for a node, and the others and the surge hold the bins."""
    cluster = node_cluster(second=1)
    cluster.cordon("first")
    cluster.run(60)
    assert cluster.log.holding == {1, 2, 3}
    assert (cluster.on("first"), cluster.on("second")) == ({1, 2}, {3})
    assert "Executor 0 has not registered" in progressing(cluster)["message"]
    cluster.uncordon("first")
    cluster.converge()
    assert cluster.on("first") == {0, 1, 2}
    assert query(cluster).stop_requests == 0


@pytest.mark.parametrize("replicas", [2, 3])
def test_without_a_surge(replicas: int) -> None:
    """With `maxSurge: 0` there is never an executor more: the others take the bins of each that leaves."""
    cluster = node_cluster(replicas)
    cluster.edit(executor={"maxSurge": 0})
    cluster.converge()
    cluster.cordon("first")
    while cluster.on("first"):
        cluster.run(1)
        assert len(cluster.pods("executor")) <= replicas
    cluster.converge()
    assert query(cluster).stop_requests == 0


def test_a_single_executor_without_a_surge_stays() -> None:
    """No other one could take its bins, and a restart would gain nothing over an eviction."""
    cluster = node_cluster(1)
    cluster.edit(executor={"maxSurge": 0})
    cluster.converge()
    before = uids(cluster) | uids(cluster, "driver")
    cluster.cordon("first")
    cluster.run(60)
    assert before == uids(cluster) | uids(cluster, "driver")
    cluster.converge()


@pytest.mark.parametrize("toleration", [{"operator": "Exists"}, {"key": CA["key"], "operator": "Exists"}])
def test_executors_that_tolerate_it_stay(toleration: dict[str, str]) -> None:
    """An executor that tolerates the taints could be scheduled there again: it would leave without end."""
    cluster = node_cluster()
    cluster.edit(executor={"pod": {"tolerations": [toleration]}})
    cluster.converge()
    before = uids(cluster)
    for name in ("first", "second"):
        cluster.change_node(name, taints=[CA])
    cluster.run(60)
    assert before == uids(cluster)
    cluster.converge()


def test_a_surge_is_given_up_for_another_template_alone() -> None:
    """Without room, an edit of the template rolls the executors on nodes that stay; one on a node that goes keeps its bins until there is room."""
    cluster = node_cluster(second=2)
    cluster.room["first"] = 1
    for slot in (0, 1):
        cluster.server.remove(("Pod", NS, f"{NAME}-executor-{slot}"))
    cluster.converge()
    assert (cluster.on("first"), cluster.on("second")) == ({2}, {0, 1})
    before = uids(cluster)
    cluster.cordon("first")
    cluster.edit(executor={"restartNonce": 1})
    cluster.run(60)
    kept = before & uids(cluster)
    assert (cluster.on("first"), cluster.on("second"), len(kept)) == ({2}, {0, 1}, 1)
    assert cluster.log.holding == {0, 1, 2}
    cluster.room["second"] = 4
    cluster.converge()
    assert cluster.on("second") == {0, 1, 2}
    assert query(cluster).stop_requests == 0
