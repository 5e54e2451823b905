"""Which nodes are about to go, what the operator keeps of them, and what their events cost."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from sim_cluster import NAME, NS
from sim_nodes import CA, NodeCluster, node_cluster
from sim_rolling import condition, uids
from sim_server import SimServer
from test_reconcile_cached import CHEAP_REQUESTS, settle
from test_watching import call

from binshift_operator import nodes as module
from binshift_operator import watching
from binshift_operator.errors import Unreachable
from binshift_operator.kube import Kube
from binshift_operator.model.node_taints import ANNOUNCING, CORDON, Taint, going_taints, reason_to_leave
from binshift_operator.nodes import Nodes

STAYS: list[dict[str, Any]] = [
    {},
    {"unschedulable": False, "taints": None},
    {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
    {"taints": [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]},
    {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
    {"taints": [{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}]},
    {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "PreferNoSchedule"}]},
    {"taints": [{"key": "dedicated", "value": "streams", "effect": "NoSchedule"}]},
]


@pytest.mark.parametrize("spec", STAYS)
def test_a_node_that_stays(spec: dict[str, Any]) -> None:
    """Neither a taint of another meaning, nor one that lets new pods in, nor a lost node: its pods go by themselves."""
    assert going_taints(spec) == ()


@pytest.mark.parametrize("key", sorted(ANNOUNCING))
def test_a_node_that_goes(key: str) -> None:
    """By each announcing taint, by the cordon, and by both; the reason is the first that a pod does not tolerate."""
    taint = Taint(key, "NoSchedule", "x")
    spec = {"taints": [{"key": key, "effect": "NoSchedule", "value": "x"}, {"key": "other", "effect": "NoSchedule"}]}
    assert going_taints(spec) == (taint,)
    both = going_taints({**spec, "unschedulable": True})
    assert set(both) == {taint, CORDON}
    assert reason_to_leave((taint,), ()) == f"taint {key}"
    assert reason_to_leave(both, [{"key": key, "operator": "Exists"}]) == "cordoned"


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "k"}, False),
        ({"key": "j", "operator": "Exists"}, False),
        ({"operator": "Equal", "value": "v"}, False),
    ],
)
def test_a_pod_that_tolerates_it_stays(toleration: dict[str, str], stays: bool) -> None:
    """A toleration matches by key, value and effect, as for the scheduler."""
    assert (reason_to_leave((Taint("k", "NoSchedule", "v"),), [toleration]) == "") is stays


def test_only_nodes_that_go_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is for the few nodes that go, and has a limit: the one reported first is dropped."""
    monkeypatch.setattr(module, "NODES_MAX", 2)
    nodes = Nodes()
    assert not nodes.update("a", ())
    assert [nodes.update(name, (CORDON,)) for name in "abc"] == [True] * 3
    assert [bool(nodes.going(name)) for name in "abcd"] == [False, True, True, False]
    assert not nodes.update("b", (CORDON,))
    assert nodes.update("b", ())
    assert nodes.going("b") == ()


@pytest.mark.parametrize("missing", ["/nodes", "watch", "list"])
def test_without_the_right(missing: str, caplog: pytest.LogCaptureFixture) -> None:
    """One line in the log, and everything is as without nodes: executors stay, nothing is Degraded, no request for nodes is repeated."""
    caplog.set_level(logging.INFO, "binshift_operator.nodes")
    cluster = node_cluster(watches=False)
    cluster.server.unreadable = {missing}
    caplog.clear()
    cluster.restart_operator()
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert not cluster.watches_nodes
    settle(cluster)
    before, requests = uids(cluster), []
    cluster.cordon("first")
    for _ in range(30):
        cluster.run(1)
        requests += cluster.server.requests
    assert before == uids(cluster)
    assert condition(cluster, "Degraded")["status"] == "False"
    assert condition(cluster, "Progressing")["reason"] == "Settled"
    assert not [each for each in requests if "nodes" in each or "review" in each]
    assert len(caplog.records) == 1


def test_an_api_server_that_fails_once_is_no_missing_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch lists the nodes itself, so a first listing that fails only delays."""
    server, nodes = SimServer(lambda: 0.0), Nodes()
    monkeypatch.setattr(Kube, "pages", _away)
    assert nodes.load(Kube(server))


def test_nodes_are_not_watched_if_the_right_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """A watch without the right would end the process: the question is repeated for some seconds, and a rejected one is not."""
    server, waits = SimServer(lambda: 0.0), list[float]()
    server.down = True
    assert not Nodes().load(Kube(server), waits.append)
    assert waits == [1.0, 2.0, 4.0]
    assert len(caplog.records) == 1

    def comes_back(seconds: float) -> None:
        server.down = False

    server.down = True
    assert Nodes().load(Kube(server), comes_back)
    server.refusing = {"selfsubjectaccessreviews": (403, "forbidden")}
    assert not Nodes().load(Kube(server), waits.append)
    assert len(waits) == 3
    assert len(caplog.records) == 2


def _away(*_: object, **__: object) -> None:
    raise Unreachable("the API server is away")


def test_a_new_process_knows_the_nodes_first() -> None:
    """It lists them before it reconciles, so that it does not send bins back that an earlier process had moved."""
    cluster = node_cluster()
    cluster.cordon("first")
    cluster.run(12)
    target = cluster.log.newest_target["workers"]
    assert target != [0, 1, 2]
    cluster.restart_operator()
    cluster.reconcile()
    assert cluster.log.newest_target["workers"] == target


def events_of_nodes(cluster: NodeCluster, *given: tuple[str, dict[str, Any], str | None]) -> None:
    """Events as Kopf passes them on: name, spec and type."""
    handlers = watching.registry(
        watching.Listeners(lambda key: None, node=cluster.on_node)
    )._watching.get_all_handlers()
    (handle,) = (handler.fn for handler in handlers if handler.id == "nodes")

    async def send() -> None:
        for name, spec, kind in given:
            await call(handle, name=name, spec=spec, type=kind)

    asyncio.run(send())


def test_heartbeats_wake_nothing() -> None:
    """A thousand nodes that report their status, and a node that goes and has no executor, are no event of a dataflow."""
    cluster = settle_with(node_cluster())
    names = ["first", "second", *(f"node-{number}" for number in range(1000))]
    events_of_nodes(cluster, *((name, {}, None) for name in names), *((name, {}, "MODIFIED") for name in names))
    other: dict[str, Any] = {"unschedulable": True}
    events_of_nodes(cluster, *(("node-7", other, "MODIFIED") for _ in range(5)), ("node-7", other, "DELETED"))
    assert cluster.woken == []
    for _ in range(3):
        cluster.reconcile()
        assert cluster.server.requests == CHEAP_REQUESTS


def test_a_node_wakes_the_dataflows_that_have_executors_on_it() -> None:
    """Once when it is about to go, once when it stays after all or is deleted; also one that only joins others."""
    cluster = settle_with(node_cluster())
    going: dict[str, Any] = {"taints": [CA]}
    for name, spec, kind, times in (
        ("second", going, "MODIFIED", 0),
        ("first", going, "MODIFIED", 1),
        ("first", going, "MODIFIED", 1),
        ("first", {}, "MODIFIED", 2),
        ("first", going, None, 3),
        ("first", going, "DELETED", 4),
    ):
        events_of_nodes(cluster, (name, spec, kind))
        assert cluster.woken == [(NS, NAME)] * times


def test_without_an_event_the_next_reconciliation_sees_it() -> None:
    """A dataflow is settled by its pods and their nodes: the cached observation does not hide a node that is about to go."""
    cluster = settle_with(node_cluster())
    cluster.nodes.update("first", (CORDON,))
    cluster.reconcile()
    assert condition(cluster, "Progressing")["reason"] == "RollingExecutors"


def settle_with(cluster: NodeCluster) -> NodeCluster:
    """A settled cluster that has just been read in full, and was woken by nothing yet."""
    settle(cluster)
    cluster.woken.clear()
    return cluster
