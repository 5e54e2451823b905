"""A dataflow with a standby driver, in a simulated cluster: one driver is active at a time, and another takes over when it ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_cluster import NAME, NS
from sim_standby import StandbyCluster

DRIVER = ("Pod", NS, f"{NAME}-driver-0")


def start_cluster(replicas: int = 2) -> StandbyCluster:
    """A dataflow that has come up: the driver in slot 0 is the active one, that in slot 1 waits."""
    cluster = StandbyCluster().start(replicas)
    cluster.converge()
    cluster.run(2)
    assert actives(cluster) == [0]
    return cluster


def actives(cluster: StandbyCluster) -> list[int]:
    """The slots of the active drivers."""
    pods = {pod["metadata"]["uid"]: int(pod["metadata"]["name"][-1]) for pod in cluster.pods("driver")}
    found = ((uid, cluster.queries.get(uid)) for uid in pods)
    return sorted(pods[uid] for uid, query in found if query is not None and getattr(query, "active", False))


def events(cluster: StandbyCluster, reason: str) -> list[str]:
    """Messages of events."""
    found = (each for (kind, _, _), each in cluster.server.objects.items() if kind == "Event")
    return [each["message"] for each in found if each.get("reason") == reason]


def runs_until(cluster: StandbyCluster, active: int, ticks: int) -> None:
    """The driver in this slot commits epochs within so many ticks."""
    before = cluster.log.epoch
    for _ in range(ticks):
        cluster.run(1)
        if active in actives(cluster) and cluster.driver(active).state == "Running" and cluster.log.epoch > before:
            return
    raise AssertionError(
        f"active {actives(cluster)}, epoch {before} to {cluster.log.epoch}; the status is {cluster.status}"
    )


def test_one_driver_is_activated() -> None:
    """At the start one driver is activated, once, and the other one waits; the status names both."""
    cluster = start_cluster()
    assert cluster.driver(0).activations == 1
    assert cluster.driver(1).state == "Standby"
    found = cluster.status["driver"]
    assert (found["active"], found["standby"]) == (f"{NAME}-driver-0", f"{NAME}-driver-1")
    assert found["warmExecutors"] == 2
    assert events(cluster, "StandbyActivated") == []


def test_a_deleted_driver_finishes_its_epoch() -> None:
    """The standby of a driver whose pod is deleted takes over once that has stopped its query; its pod comes back as the standby."""
    cluster = start_cluster()
    cluster.server.remove(DRIVER)
    cluster.reconcile()
    assert actives(cluster) == [0]
    runs_until(cluster, 1, 5)
    cluster.converge()
    cluster.run(2)
    assert (actives(cluster), cluster.driver(0).state) == ([1], "Standby")
    assert cluster.status["driver"]["active"] == f"{NAME}-driver-1"
    assert len(events(cluster, "StandbyActivated")) == 1


def test_a_killed_driver_is_replaced_at_once() -> None:
    """The standby takes over from a driver whose process has ended, whether that is seen before or after it has started again."""
    cluster = start_cluster()
    cluster.kill(0)
    cluster.tick()
    runs_until(cluster, 1, 4)
    cluster.converge()
    cluster.run(2)
    assert (actives(cluster), cluster.driver(0).state) == ([1], "Standby")


def test_a_driver_that_refuses_and_is_not_ready_has_ended() -> None:
    """A driver that is not ready and refuses connections is deleted, and the standby activated in the same reconciliation."""
    cluster = start_cluster()
    cluster.kill(0)
    pod = cluster.server.objects[DRIVER]
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cluster.reconcile()
    assert "deletionTimestamp" in pod["metadata"]
    assert actives(cluster) == [1]
    assert "is not ready and does not answer" in events(cluster, "StandbyActivated")[0]


def test_a_driver_on_a_lost_node_is_replaced_after_its_silence() -> None:
    """(I8) A driver that only does not answer is given some seconds; then the standby takes over, and the old one is fenced."""
    cluster = start_cluster()
    old = cluster.uid(0)
    cluster.unreachable.add(old)
    cluster.run(4)
    assert actives(cluster) == [0]
    runs_until(cluster, 1, 8)
    assert cluster.queries[old].state == "Fenced"
    cluster.unreachable.clear()
    cluster.converge()
    cluster.run(2)
    assert (actives(cluster), cluster.driver(0).state) == ([1], "Standby")


def test_the_pod_on_a_lost_node_is_deleted_by_force() -> None:
    """The pod on a node that is gone does not end; after its grace period it is deleted by force, and comes back as the standby."""
    cluster = start_cluster()
    old = cluster.uid(0)
    cluster.lost.add(old)
    runs_until(cluster, 1, 10)
    assert cluster.uid(0) == old
    cluster.run(90)
    assert (actives(cluster), cluster.driver(0).state, cluster.uid(0) != old) == ([1], "Standby", True)


def test_a_short_silence_changes_nothing() -> None:
    """A driver that answers again within a moment stays the active one."""
    cluster = start_cluster()
    cluster.unreachable.add(cluster.uid(0))
    cluster.run(3)
    cluster.unreachable.clear()
    cluster.run(10)
    assert (actives(cluster), cluster.driver(1).activations) == ([0], 0)


def test_both_pods_at_once() -> None:
    """If both pods are lost, one of the new ones is activated."""
    cluster = start_cluster()
    for slot in (0, 1):
        cluster.server.remove(("Pod", NS, f"{NAME}-driver-{slot}"), at_once=True)
        cluster.queries.clear()
    cluster.converge()
    assert len(actives(cluster)) == 1


def test_the_standby_ends() -> None:
    """The end of the standby does not concern the stream; its pod comes back."""
    cluster = start_cluster()
    cluster.server.remove(("Pod", NS, f"{NAME}-driver-1"))
    before = cluster.log.epoch
    cluster.run(1)
    assert "standby" not in cluster.status["driver"]
    cluster.run(8)
    assert cluster.log.epoch >= before + 8
    assert cluster.status["driver"]["standby"] == f"{NAME}-driver-1"


@pytest.mark.parametrize("crash_after", range(1, 7))
def test_the_operator_ends_in_the_middle(crash_after: int) -> None:
    """Another process of the operator continues a take-over after any write of the first one."""
    cluster = start_cluster()
    cluster.server.writes.clear()
    cluster.server.crash_after = crash_after
    cluster.kill(0)
    cluster.server.objects[DRIVER]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    runs_until(cluster, 1, 8)
    cluster.server.crash_after = None
    cluster.converge()
    cluster.run(2)
    assert actives(cluster) == [1]


def test_suspended_and_resumed() -> None:
    """A suspended dataflow has no driver; resumed, it has one active and one standby."""
    cluster = start_cluster()
    cluster.edit(suspend=True)
    cluster.converge()
    assert "driver" not in cluster.status
    cluster.edit(suspend=False)
    cluster.converge()
    assert len(actives(cluster)) == 1


def test_the_field_is_edited() -> None:
    """Without the standby and with it again, the dataflow is restarted, and converges to so many drivers."""
    cluster = start_cluster()
    cluster.edit(driver={"standby": False})
    cluster.converge()
    assert [pod["metadata"]["name"] for pod in cluster.pods("driver")] == [f"{NAME}-driver-0"]
    assert "driver" not in cluster.status
    cluster.edit(driver={"standby": True})
    cluster.converge()
    cluster.run(2)
    assert len(actives(cluster)) == 1


class Trouble:
    """What happens to drivers."""

    def __init__(self, cluster: StandbyCluster) -> None:
        self.cluster = cluster

    def happen(self, what: str, slot: int) -> None:
        """To the driver in this slot, if it exists."""
        cluster = self.cluster
        key = ("Pod", NS, f"{NAME}-driver-{slot}")
        if key not in cluster.server.objects or cluster.uid(slot) not in cluster.queries:
            return
        match what:
            case "delete":
                cluster.server.remove(key)
            case "kill":
                cluster.kill(slot)
            case "partition":
                cluster.unreachable.add(cluster.uid(slot))
            case "heal":
                cluster.unreachable.clear()
            case _:
                cluster.restart_operator()


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["delete", "kill", "partition", "heal", "operator"]),
            st.integers(0, 1),
            st.integers(0, 7),
        ),
        max_size=8,
    )
)
def test_random_trouble(history: list[tuple[str, int, int]]) -> None:
    """Whatever happens to the drivers, at most one query runs that is not fenced, and in the end one driver is active."""
    cluster = start_cluster()
    trouble = Trouble(cluster)
    for what, slot, ticks in history:
        trouble.happen(what, slot)
        cluster.run(ticks)
    cluster.unreachable.clear()
    cluster.converge()
    cluster.run(3)
    assert len(actives(cluster)) == 1
