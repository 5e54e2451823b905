"""A simulated cluster with nodes: executors are scheduled to them, and the operator watches them, if it may.

Each node has room for so many executors; one that is cordoned or tainted takes no new ones that do not tolerate it. The driver is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sim_cluster import SimCluster
from sim_rolling import moved

from binshift_operator.children import RenderContext
from binshift_operator.main import node_handler
from binshift_operator.model.node_taints import going_taints, reason_to_leave
from binshift_operator.nodes import Nodes
from binshift_operator.reconcile import Reconciler
from binshift_operator.work_queue import ObjectKey

CA: dict[str, str] = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000", "effect": "NoSchedule"}


@dataclass
class NodeCluster(SimCluster):
    """A cluster with nodes.

    Attributes:
        room: how many executors fit on each node.
        deaf_to_nodes: whether no event of a node reaches the operator.
        woken: the dataflows for which an event of a node was an event.
    """

    room: dict[str, int] = field(default_factory=dict)
    deaf_to_nodes: bool = False
    woken: list[ObjectKey] = field(default_factory=list)

    def fork(self) -> NodeCluster:
        """See `SimCluster.fork`."""
        other = super().fork()
        assert isinstance(other, NodeCluster)
        other.room, other.server.unreadable = dict(self.room), set(self.server.unreadable)
        other.restart_operator()
        return other

    def restart_operator(self) -> None:
        """A new process: it lists the nodes before it reconciles."""
        self.nodes = Nodes()
        super().restart_operator()
        self.watches_nodes = self.nodes.load(self.reconciler.kube, lambda seconds: None)
        self.on_node = node_handler(self.nodes, self.reconciler, self._wake)

    def operator(self, context: RenderContext, name: str = "") -> Reconciler:
        """See `SimCluster.operator`."""
        made = super().operator(context, name)
        made.observer = replace(made.observer, going=self.nodes.going)
        return made

    def _wake(self, key: ObjectKey) -> None:
        self.woken.append(key)
        self.reconciler.invalidate(*key)

    def add_node(self, name: str, room: int = 10) -> None:
        """A node joins."""
        self.room[name] = room
        self.server.put("Node", {"kind": "Node", "metadata": {"name": name, "namespace": ""}, "spec": {}})
        self._heard_of(name)

    def change_node(self, name: str, **spec: Any) -> None:
        """A node gets another spec."""
        self.server.objects["Node", "", name]["spec"] = spec
        self._heard_of(name)

    def cordon(self, name: str) -> None:
        """A user cordons a node."""
        self.change_node(name, unschedulable=True)

    def uncordon(self, name: str) -> None:
        """The node stays after all."""
        self.change_node(name)

    def _heard_of(self, name: str) -> None:
        if self.watches_nodes and not self.deaf_to_nodes:
            self.on_node(name, going_taints(self.server.objects["Node", "", name]["spec"]))

    def on(self, name: str) -> set[int]:
        """The slots of the executors on a node."""
        return {
            int(pod["metadata"]["name"].rpartition("-")[2])
            for pod in self.pods("executor")
            if pod["spec"].get("nodeName") == name
        }

    def leaving(self) -> set[int]:
        """The slots of the executors on nodes that are about to go."""
        going = (name for name in self.room if going_taints(self.server.objects["Node", "", name]["spec"]))
        return {slot for name in going for slot in self.on(name)}

    def _kubelet(self) -> None:
        """The scheduler comes first; what it finds no node for has no room."""
        full = set(self.no_room)
        for pod in self.pods("executor"):
            if "nodeName" in pod["spec"] or "deletionTimestamp" in pod["metadata"]:
                continue
            slot = int(pod["metadata"]["name"].rpartition("-")[2])
            node = None if slot in self.no_room else self._free_node(pod["spec"])
            if node is None:
                full.add(slot)
            else:
                pod["spec"]["nodeName"] = node
                pod["status"].pop("conditions", None)
        kept, self.no_room = self.no_room, full
        super()._kubelet()
        self.no_room = kept

    def _free_node(self, spec: Mapping[str, Any]) -> str | None:
        """The node with the most room on which a pod can be scheduled."""
        free = {name: room - len(self.on(name)) for name, room in self.room.items() if self._takes(name, spec)}
        best = max(sorted(free), key=free.__getitem__, default=None)
        return best if best is not None and free[best] > 0 else None

    def _takes(self, name: str, spec: Mapping[str, Any]) -> bool:
        taints = going_taints(self.server.objects["Node", "", name]["spec"])
        return not reason_to_leave(taints, spec.get("tolerations") or ())


def node_cluster(replicas: int = 3, *, watches: bool = True, **room: int) -> NodeCluster:
    """A dataflow that has come up; all executors are on the first node when the others join, by default one with much room."""
    cluster = NodeCluster()
    cluster.server.unreadable = set() if watches else {"/nodes"}
    cluster.restart_operator()
    cluster.add_node("first")
    cluster.start(replicas)
    cluster.converge()
    for name, count in (room or {"second": 10}).items():
        cluster.add_node(name, count)
    return cluster


def run_until_settled(cluster: NodeCluster, ticks: int = 200) -> int:
    """Time passes until executors have left, and the dataflow waits for nothing; how many bins moved meanwhile."""
    bins = 0
    cluster.run(1)
    for _ in range(ticks):
        if progressing(cluster)["status"] == "False" and not cluster.leaving():
            return bins
        route = dict(cluster.log.route)
        cluster.run(1)
        bins += moved(route, cluster.log.route)
    raise AssertionError(f"it does not settle: {cluster.status}")


def progressing(cluster: SimCluster) -> dict[str, str]:
    """The condition Progressing."""
    return next(each for each in cluster.status["conditions"] if each["type"] == "Progressing")


def events(cluster: SimCluster, reason: str) -> list[str]:
    """The messages of the events of a reason."""
    found = (each for (kind, _, _), each in cluster.server.objects.items() if kind == "Event")
    return [each["message"] for each in found if each["reason"] == reason]
