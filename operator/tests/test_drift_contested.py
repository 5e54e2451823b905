"""A cluster in which others overwrite what the operator applies: it completes its work anyway, and stops competing."""

from __future__ import annotations

from typing import Any

from sim_cluster import NAME, NS, SimCluster

EMPTY = {
    "env": [{"name": "EMPTY", "value": ""}],
    "tolerations": [{"key": "", "operator": "Exists"}],
    "volumes": [{"name": "data", "emptyDir": {}}],
    "volumeMounts": [
        {"name": "data", "mountPath": "/a", "readOnly": False},
        {"name": "data", "mountPath": "/b", "readOnly": True},
    ],
}


def stubborn(kind: str, found: dict[str, Any]) -> None:
    """A webhook with wishes of its own."""
    if kind == "StatefulSet":
        found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 7
    if kind == "Service":
        found["spec"]["ports"] = []


def run_through_edits(cluster: SimCluster) -> None:
    """Comes up, is scaled, restarted, suspended, resumed."""
    cluster.converge()
    for spec in (
        {"replicas": 3},
        {"image": "example/clicks:2"},
        {"replicas": 1},
        {"suspend": True},
        {"suspend": False},
    ):
        cluster.edit(**spec)
        cluster.converge()


def applications(cluster: SimCluster) -> list[str]:
    """Writes that put children in place."""
    return [write for write in cluster.server.writes if "statefulsets" in write or "services" in write]


def test_empty_values_do_not_disturb() -> None:
    """Empty values, as the server leaves them out, and a volume that is mounted twice: everything works, nothing is applied twice."""
    cluster = SimCluster()
    cluster.start(2)
    cluster.edit(executor={"pod": EMPTY}, driver={"pod": EMPTY})
    cluster.converge()
    cluster.server.writes.clear()
    cluster.run(30)
    assert applications(cluster) == []
    run_through_edits(cluster)


def test_drift_that_cannot_be_removed_blocks_nothing() -> None:
    """A webhook that changes every StatefulSet and Service keeps a dataflow from nothing."""
    cluster = SimCluster()
    cluster.server.webhook = stubborn
    cluster.start(2)
    run_through_edits(cluster)


def test_drift_that_cannot_be_removed_is_fought_less_and_less() -> None:
    """What does not last is applied at growing intervals, and a reconciliation that only did this is not followed by another at once."""
    cluster = SimCluster()
    cluster.server.webhook = stubborn
    cluster.start(2)
    cluster.converge()
    cluster.server.writes.clear()
    cluster.run(30)
    early = len(applications(cluster))
    assert early > 0
    cluster.run(300)
    assert len(applications(cluster)) - early <= 5 * early
    assert len(applications(cluster)) <= 10 * 4
    cluster.tick(300)
    written = len(applications(cluster))
    assert (cluster.reconciler.reconcile(NS, NAME).requeue_after or 0) > 1
    assert len(applications(cluster)) > written


def test_drift_by_hand_is_removed() -> None:
    """What a user changes now and then is repaired in the next reconciliation."""
    cluster = SimCluster().start(2)
    cluster.converge()
    cluster.tick(10)
    for _ in range(3):
        cluster.server.edit("Service", NS, f"{NAME}-driver", {"ports": []})
        cluster.reconcile()
        assert cluster.server.objects[("Service", NS, f"{NAME}-driver")]["spec"]["ports"]
        cluster.tick(10)


def test_a_write_that_fails_holds_up_no_rest() -> None:
    """A child that cannot be put in place keeps no pod of a dataflow that is suspended, and no bin is taken from a query that runs."""
    cluster = SimCluster().start(3)
    cluster.converge()
    cluster.server.refusing = {"configmaps": (500, "a webhook fails")}
    cluster.server.remove(("ConfigMap", NS, f"{NAME}-spark"))
    cluster.edit(suspend=True)
    cluster.run(30)
    assert not [key for key in cluster.server.objects if key[0] == "Pod"]
    assert not cluster.settled()
    cluster.converge()
