"""StatefulSets that a user deletes, with or without their pods."""

from __future__ import annotations

import pytest
from sim_cluster import NAME, NS, SimCluster


@pytest.mark.parametrize("component", ["executor", "driver"])
def test_a_stateful_set_waits_for_the_pods_of_the_one_before(component: str) -> None:
    """One that was deleted with its pods is made again once these are gone, as it could not make pods of their names before."""
    cluster = SimCluster().start(3)
    cluster.converge()
    key = ("StatefulSet", NS, f"{NAME}-{component}")
    cluster.server.remove(key)
    ending = [pod for pod in cluster.pods(component) if "deletionTimestamp" in pod["metadata"]]
    assert ending
    cluster.reconcile()
    assert key not in cluster.server.objects
    (condition,) = (each for each in cluster.status["conditions"] if each["type"] == "Progressing")
    assert "pods of a deleted StatefulSet are ending" in condition["message"]
    cluster.converge()


def test_a_stateful_set_without_its_pods_is_made_again_at_once() -> None:
    """One that was deleted and whose pods were left is recreated and adopts them."""
    cluster = SimCluster().start(3)
    cluster.converge()
    key = ("StatefulSet", NS, f"{NAME}-executor")
    pods = [pod["metadata"]["uid"] for pod in cluster.pods("executor")]
    del cluster.server.objects[key]
    cluster.reconciler.invalidate(NS, NAME)
    cluster.reconcile()
    assert key in cluster.server.objects
    cluster.converge()
    assert [pod["metadata"]["uid"] for pod in cluster.pods("executor")] == pods
