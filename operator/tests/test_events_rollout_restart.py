"""`kubectl rollout restart` of a StatefulSet: it replaces nothing, and is answered with what does."""

from __future__ import annotations

import pytest
from sim_cluster import NAME, NS, SimCluster


def answers(cluster: SimCluster) -> list[tuple[str, int]]:
    """The recorded events and their counts."""
    events = cluster.server.listed("Event", NS)
    return [(each["message"], each["count"]) for each in events if each["reason"] == "RolloutRestartIgnored"]


@pytest.mark.parametrize("component", ["executor", "driver"])
def test_a_rollout_restart_is_answered(component: str) -> None:
    """One warning reports that no pod is replaced and which field restarts the dataflow; no pod is touched."""
    cluster = SimCluster().start(2)
    cluster.converge()
    pods = {pod["metadata"]["uid"] for pod in cluster.pods("executor") + cluster.pods("driver")}
    found = cluster.server.objects[("StatefulSet", NS, f"{NAME}-{component}")]
    found["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "2023-11-14T22:13:20Z"
    found["metadata"]["generation"] += 1
    cluster.reconciler.invalidate(NS, NAME)
    cluster.run(10)
    ((message, count),) = answers(cluster)
    assert f"StatefulSet {NAME}-{component}" in message
    assert "spec.restartNonce" in message
    assert count == 1
    assert {pod["metadata"]["uid"] for pod in cluster.pods("executor") + cluster.pods("driver")} == pods
    cluster.converge()


@pytest.mark.parametrize("restarted_at", ["2023-11-14T20:00:00Z", "yesterday"])
def test_an_old_rollout_restart_is_not_answered_again(restarted_at: str) -> None:
    """A new process or leader of the operator ignores an old request."""
    cluster = SimCluster().start(2)
    cluster.converge()
    found = cluster.server.objects[("StatefulSet", NS, f"{NAME}-executor")]
    found["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = restarted_at
    for _ in range(2):
        cluster.restart_operator()
        cluster.run(3)
    assert answers(cluster) == []
