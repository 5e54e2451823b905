"""Pods of a real API server that never run, marked as running, and the simulated runtime in them.

The API server, the StatefulSets' controller and the garbage collector are real; kubelet, Spark and the program are made up, as no node
is needed then. A pod without a node goes at once when it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sim_runtime import Log, Query

from binshift_operator.errors import OperatorError
from binshift_operator.kube import MERGE, Object, Transport, path_of
from binshift_operator.model.names import ANNOTATION_KEYS, DRIVER, EXECUTOR, LABEL_COMPONENT

RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@dataclass
class Paper:
    """One dataflow's pods and runtime.

    Attributes:
        connection: to the API server.
        log: the checkpoint.
        pods: by name, the pods that are marked as running.
        violations: what the operator must not have done.
    """

    connection: Transport
    log: Log = field(default_factory=Log)
    pods: dict[str, Object] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def saw(self, pods: Iterable[Object]) -> None:
        """These are all the pods there are."""
        there = {pod["metadata"]["name"]: pod for pod in pods}
        for name in self.pods.keys() - there.keys():
            self.lost(name)
        for pod in there.values():
            self.came(pod)

    def came(self, pod: Object) -> None:
        """A pod was created or has changed."""
        name, last = pod["metadata"]["name"], self.pods.get(pod["metadata"]["name"])
        if last is not None and last["metadata"]["uid"] != pod["metadata"]["uid"]:
            self.lost(name)
        if "deletionTimestamp" in pod["metadata"]:
            return
        if (pod.get("status") or {}).get("phase") != "Running":
            path = path_of("Pod", pod["metadata"]["namespace"], name, "status")
            try:
                self.connection("PATCH", path, {}, {"status": RUNNING}, MERGE)
            except OperatorError:
                return
        self.pods[name] = pod

    def lost(self, name: str) -> None:
        """A pod is gone: nothing may be lost by it."""
        pod = self.pods.pop(name, None)
        if pod is None:
            return
        running = self.query()
        if component(pod) == DRIVER:
            query = self.queries.pop(pod["metadata"]["uid"], None)
            if query is not None and query.state == "Running":
                self.violations.append(f"{name} was taken while its query ran")
        elif running is not None and running.state == "Running" and slot(pod) in self.log.holding:
            self.violations.append(f"{name} was taken while it held bins")

    def tick(self) -> None:
        """A moment passes for the runtime."""
        for pod in [pod for pod in self.pods.values() if component(pod) == DRIVER]:
            keys = pod["metadata"]["annotations"][ANNOTATION_KEYS]
            query = self.queries.setdefault(pod["metadata"]["uid"], Query(self.log, pod["metadata"]["uid"], keys))
            executors = (each for each in self.pods.values() if component(each) == EXECUTOR)
            query.tick({slot(each) for each in executors if each["metadata"]["annotations"][ANNOTATION_KEYS] == keys})

    def query(self) -> Query | None:
        """The query in the driver's pod, if there is one."""
        uids = {pod["metadata"]["uid"] for pod in self.pods.values() if component(pod) == DRIVER}
        return next((query for uid, query in self.queries.items() if uid in uids), None)


def component(pod: Mapping[str, Any]) -> str:
    """Of a pod."""
    found: str = pod["metadata"]["labels"][LABEL_COMPONENT]
    return found


def slot(pod: Mapping[str, Any]) -> int:
    """Of an executor's pod."""
    return int(pod["metadata"]["name"].rpartition("-")[2])
