"""How many executors may be evicted: as many as the stream can spare, whether or not others can be scheduled."""

from __future__ import annotations

import pytest
from sim_cluster import NAME, NS, SimCluster
from sim_limits import LIMITS

WAIT = int(LIMITS.registration_wait_seconds)


def allowed(cluster: SimCluster) -> int:
    """How many ready executors may be evicted now, by Kubernetes' arithmetic."""
    most = cluster.server.objects[("PodDisruptionBudget", NS, f"{NAME}-executor")]["spec"]["maxUnavailable"]
    expected = cluster.server.objects[("StatefulSet", NS, f"{NAME}-executor")]["spec"]["replicas"]
    ready = [each for each in cluster.pods("executor") if each["status"].get("phase") == "Running"]
    return int(len(ready) - (expected - most))


def start_cluster(replicas: int) -> SimCluster:
    """A dataflow that has come up."""
    cluster = SimCluster().start(replicas)
    cluster.converge()
    return cluster


def test_executors_without_room_do_not_block_the_drain_of_nodes() -> None:
    """Of the existing executors one can be evicted, although others cannot be scheduled; once they run, still one."""
    cluster = start_cluster(2)
    assert allowed(cluster) == 1
    cluster.no_room = {2, 4}
    cluster.edit(replicas=5)
    cluster.run(3 * WAIT)
    assert allowed(cluster) == 1
    cluster.converge()
    assert allowed(cluster) == 1


def test_an_executor_of_the_target_without_room() -> None:
    """An evicted executor that finds no room lets the next one be evicted only after its time, and once others hold its bins."""
    cluster = start_cluster(3)
    cluster.no_room = {1}
    cluster.server.remove(("Pod", NS, f"{NAME}-executor-1"), at_once=True)
    cluster.run(WAIT)
    assert allowed(cluster) == 0
    cluster.run(4 * WAIT)
    assert allowed(cluster) == 1
    cluster.converge()
    assert allowed(cluster) == 1


def test_a_policy_that_overrules_the_budget_holds_up_nothing() -> None:
    """A budget that a webhook sets otherwise is no reason for a dataflow not to settle."""
    cluster = start_cluster(2)

    def overrule(kind: str, found: dict[str, object]) -> None:
        if kind == "PodDisruptionBudget":
            found["spec"]["maxUnavailable"] = 3  # type: ignore[index]

    cluster.server.webhook = overrule
    cluster.edit(replicas=4)
    cluster.converge()
    cluster.edit(replicas=1)
    cluster.converge()


@pytest.mark.parametrize("theirs", [2, "50%"])
def test_a_controller_that_overrules_the_budget_is_fought_less_and_less(theirs: int | str) -> None:
    """A budget that is written over at once, with a number or a percentage, is put right more and more rarely; by hand, at once."""
    cluster, key = start_cluster(2), ("PodDisruptionBudget", NS, f"{NAME}-executor")
    cluster.server.writes.clear()
    for _ in range(300):
        cluster.server.edit(*key, {"maxUnavailable": theirs})
        cluster.run(1)
    assert 3 <= sum("poddisruptionbudgets" in write for write in cluster.server.writes) <= 12
    assert cluster.settled()
    cluster.tick(600)
    cluster.run(2)
    assert allowed(cluster) == 1
