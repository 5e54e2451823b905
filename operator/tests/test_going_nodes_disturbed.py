"""At any moment while executors leave a node, in a simulated cluster: the node stays after all, the operator ends, or anything else happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from sim_cluster import NAME, NS
from sim_nodes import CA, NodeCluster, node_cluster, run_until_settled
from sim_rolling import PLACES, query, uids
from sim_runtime import BINS
from test_reconcile_faults import Disturbed
from test_rolling_disturbed import STEPS


def moments(every: int = 1) -> Iterator[NodeCluster]:
    """A cluster of three executors in each (or every second) of `STEPS` after the cordon of their node."""
    start = node_cluster()
    for ticks in STEPS[::every]:
        cluster = start.fork()
        cluster.cordon("first")
        cluster.run(ticks)
        yield cluster


def test_the_node_stays_after_all() -> None:
    """The leaving ends: no further executor is replaced, and no more bins return than one executor's and those under way."""
    for cluster in moments():
        live = {p["metadata"]["uid"] for p in cluster.pods("executor") if "deletionTimestamp" not in p["metadata"]}
        surge = {pod["metadata"]["uid"] for pod in cluster.pods("executor") if pod["metadata"]["name"].endswith("-3")}
        cluster.uncordon("first")
        bins = run_until_settled(cluster)
        cluster.converge()
        assert live - surge <= uids(cluster)
        assert bins <= 2 / 3 * BINS + 2 * PLACES
        assert query(cluster).stop_requests == 0


def edit_replicas(replicas: int) -> Callable[[NodeCluster], object]:
    """An autoscaler's edit."""
    return lambda cluster: cluster.edit(replicas=replicas)


def lose(slot: int) -> Callable[[NodeCluster], object]:
    """An executor is evicted: it ends as the kubelet ends it, with or without bins."""

    def evict(cluster: NodeCluster) -> None:
        key = ("Pod", NS, f"{NAME}-executor-{slot}")
        if key in cluster.server.objects:
            cluster.server.remove(key, at_once=True)

    return evict


@pytest.mark.parametrize(
    "happens",
    [
        *(edit_replicas(count) for count in (1, 2, 4, 5)),
        *(lose(slot) for slot in range(4)),
        lambda cluster: cluster.edit(executor={"restartNonce": 1}),
        lambda cluster: cluster.restart_operator(),
        lambda cluster: cluster.change_node("first", unschedulable=True, taints=[CA]),
        lambda cluster: cluster.add_node("third"),
        lambda cluster: (cluster.add_node("third"), cluster.cordon("second")),
    ],
    ids=[
        *(f"{count} replicas" for count in (1, 2, 4, 5)),
        *(f"executor {slot} is evicted" for slot in range(4)),
        *("another template", "another operator", "a taint besides", "a third node", "the second node goes, too"),
    ],
)
def test_in_the_middle(happens: Callable[[NodeCluster], object]) -> None:
    """Whatever happens in any step, all executors are on nodes that stay in the end, and the query was not stopped."""
    for cluster in moments(every=2):
        driver = uids(cluster, "driver")
        happens(cluster)
        cluster.converge()
        assert cluster.leaving() == set()
        assert (uids(cluster, "driver"), query(cluster).stop_requests) == (driver, 0)


def test_a_migration_in_the_middle() -> None:
    """A node that goes while bins move to other executors, at any moment: both come to their end."""
    start = node_cluster(2)
    for ticks in range(1, 16):
        cluster = start.fork()
        cluster.edit(replicas=4)
        cluster.run(ticks)
        cluster.cordon("first")
        cluster.converge()
        assert (cluster.on("first"), len(cluster.on("second"))) == (set(), 4)
        assert query(cluster).stop_requests == 0


def test_crash_after_every_write() -> None:
    """An operator that ends right after any write is followed by one that continues, and moves no bin more often."""
    before = node_cluster()
    cluster = before.fork()
    cluster.cordon("first")
    cluster.server.writes.clear()
    needed = run_until_settled(cluster)
    writes = len(cluster.server.writes)
    assert writes >= 20
    for write in range(1, writes + 1):
        other = before.fork()
        other.cordon("first")
        other.server.writes.clear()
        other.server.crash_after = write
        moved = run_until_settled(other)
        assert other.server.crash_after is None, f"there was no write {write}"
        assert (other.on("second"), moved) == ({0, 1, 2}, needed), f"after a crash at write {write}"
        assert query(other).stop_requests == 0


class NodesDisturbed(Disturbed):
    """The same as without nodes, and nodes come and go."""

    cluster: NodeCluster

    @initialize(replicas=st.integers(1, 4), watches=st.booleans())
    def begin(self, replicas: int, watches: bool) -> None:
        self.cluster = node_cluster(replicas, watches=watches, second=2, third=3)

    @rule(name=st.sampled_from(["first", "second", "third"]))
    def cordon(self, name: str) -> None:
        self.cluster.cordon(name)

    @rule(name=st.sampled_from(["first", "second", "third"]))
    def announce(self, name: str) -> None:
        self.cluster.change_node(name, taints=[CA])

    @rule(name=st.sampled_from(["first", "second", "third"]))
    def uncordon(self, name: str) -> None:
        self.cluster.uncordon(name)

    @rule(name=st.sampled_from(["second", "third"]), room=st.integers(0, 4))
    def other_pods(self, name: str, room: int) -> None:
        self.cluster.room[name] = room

    def teardown(self) -> None:
        """One node stays."""
        if hasattr(self, "cluster"):
            self.cluster.uncordon("third")
            self.cluster.room["third"] = 10
            super().teardown()


TestNodesDisturbed = NodesDisturbed.TestCase
TestNodesDisturbed.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
