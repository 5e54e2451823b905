"""A simulated cluster in memory: controllers, kubelets, one dataflow's runtime, and the operator that reconciles it.

Time passes in ticks of one second. `SimCluster.check` holds after every tick and every write: one driver, no executor taken from
a query that runs while it holds bins or is wanted, no finalizer, no Secret written over, nothing foreign touched.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Self

from crd_cases import BASE
from prometheus_client.registry import CollectorRegistry
from sim_checks import assert_may_go, assert_read_first, problems
from sim_control import SimControl
from sim_limits import LIMITS
from sim_runtime import Log, Query
from sim_server import Crash, SimServer, stamp
from sim_settings import settings_of

from binshift_operator.actor import Actor
from binshift_operator.children import RenderContext, hash_keys, read_keys
from binshift_operator.errors import OperatorError
from binshift_operator.kube import Kube
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import ANNOTATION_KEYS, LABEL_COMPONENT, DataflowKey
from binshift_operator.observe import Observer
from binshift_operator.reconcile import Reconciler

NS, NAME = "default", "clicks"
SDF = ("StreamingDataflow", NS, NAME)
ENDING_TICKS, RESYNC_SECONDS = 2, 20.0


@dataclass
class SimCluster:
    """Everything there is; `start` makes the dataflow.

    Attributes:
        no_room: slots of executors that cannot be scheduled.
        stuck: slots of executors whose new pods do not start.
        failing: why the program fails, if it does.
        silent: whether the control API cannot be reached.
        no_pods: why no pod of executors can be made, if none can.
        ending: whether the program comes to its end once it has committed an epoch.
        deaf: whether no event reaches the operator.
        lost: UIDs of pods on nodes that are gone: no kubelet ends them; ``drivers``: there are at most so many.
    """

    no_room: set[int] = field(default_factory=set)
    stuck: set[int] = field(default_factory=set)
    failing: str = ""
    silent: bool = False
    no_pods: str = ""
    ending: bool = False
    deaf: bool = False
    lost: set[str] = field(default_factory=set)
    drivers: int = 1
    now: float = 1_700_000_000.0
    log: Log = field(default_factory=Log)
    queries: dict[str, Query] = field(default_factory=dict)
    secrets: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = SimServer(lambda: self.now)
        self.server.deleting = self.assert_may_go
        self.server.changed = self._told
        self.heard = self.now
        self.restart_operator()

    def fork(self) -> Self:
        """Another cluster in the same state, with an operator of its own."""
        parts = (self.server.objects, self.server.version, self.log, self.queries, self.secrets, self.now)
        other, copies = type(self)(), copy.deepcopy(parts)
        other.server.objects, other.server.version, other.log, other.queries, other.secrets, other.now = copies
        other.heard = other.now
        return other

    def start(self, replicas: int = 2) -> SimCluster:
        """A user creates the claim and the dataflow."""
        claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": NAME, "namespace": NS}}
        if ("PersistentVolumeClaim", NS, NAME) not in self.server.objects:
            self.server.put("PersistentVolumeClaim", {**claim, "spec": {"accessModes": ["ReadWriteMany"]}})
        made = copy.deepcopy(BASE)
        made["metadata"]["namespace"], made["spec"]["replicas"] = NS, replicas
        self.server.put("StreamingDataflow", made)
        return self

    def restart_operator(self) -> None:
        """A new process of the operator: it remembers nothing."""
        self.reconciler = self.operator(RenderContext())

    def operator(self, context: RenderContext, name: str = "") -> Reconciler:
        """A process of an operator, by the name that it gives itself."""
        kube = Kube(self.server)
        observer = Observer(kube, self.address, context, lambda: self.now, self._connected, name)
        metrics, actor = OperatorMetrics(CollectorRegistry()), Actor(kube, name)
        return Reconciler(kube, observer, actor, LIMITS, metrics, lambda: self.now, RESYNC_SECONDS)

    def address(self, key: DataflowKey, ip: str) -> str | None:
        """Where a driver's control API is; any, as there is one driver."""
        return ""

    def made(self, uid: str, keys: str) -> Query:
        """The process in a new driver's pod."""
        return Query(self.log, uid, keys, settings=settings_of(self.server.objects))

    def _told(self, kind: str) -> None:
        """The operator hears of what it watches."""
        if not self.deaf and kind in ("Pod", "StatefulSet"):
            self.reconciler.invalidate(NS, NAME)

    def _connected(self, address: str, token: str, *_: Any) -> SimControl:
        found = read_keys(self.server.objects.get(("Secret", NS, f"{NAME}-keys"), {}))
        return SimControl(token, self._query, self._driver_was_written_to, hash_keys(found) if found else "")

    def _driver_was_written_to(self, write: str) -> None:
        self.server.requests.append(write)
        self.server.count(write)

    def _query(self) -> Query | None:
        pod = self.server.objects.get(("Pod", NS, f"{NAME}-driver-0"))
        return None if pod is None or self.silent else self.queries.get(pod["metadata"]["uid"])

    # ------------------------------------------------------------------------------------------------------ what happens

    @property
    def dataflow(self) -> dict[str, Any]:
        """The resource, which exists."""
        return self.server.objects[SDF]

    @property
    def status(self) -> dict[str, Any]:
        """Its status."""
        return self.server.objects.get(SDF, {}).get("status") or {}

    def edit(self, **spec: Any) -> None:
        """A user edits the spec."""
        self.server.edit(*SDF, spec)

    def pods(self, component: str) -> list[dict[str, Any]]:
        """The live objects of pods, also of ending ones."""
        found = [each for (kind, _, _), each in sorted(self.server.objects.items()) if kind == "Pod"]
        return [each for each in found if each["metadata"]["labels"].get(LABEL_COMPONENT) == component]

    def reconcile(self) -> None:
        """The operator reconciles once; if it crashes, a new process starts."""
        self.server.requests.clear()
        try:
            self.reconciler.reconcile(NS, NAME)
        except Crash:
            self.restart_operator()
        except OperatorError:
            pass
        self.check()
        assert_read_first(self.server.requests, DataflowKey(NS, NAME, ""), self.server.objects.get(SDF, {}))

    def tick(self, ticks: int = 1) -> None:
        """Time passes for all but the operator."""
        for _ in range(ticks):
            self.now += 1.0
            self.heard = self.heard if self.silent else self.now
            self._stateful_sets()
            self._kubelet()
            self._runtime()
            self.check()

    def run(self, ticks: int) -> None:
        """Time passes, and the operator reconciles."""
        for _ in range(ticks):
            self.reconcile()
            self.tick()

    def _stateful_sets(self) -> None:
        for (kind, _, name), owner in list(self.server.objects.items()):
            if kind != "StatefulSet":
                continue
            meta, spec = owner["metadata"], owner["spec"]
            for slot in range(spec["replicas"]):
                if ("Pod", NS, f"{name}-{slot}") not in self.server.objects:
                    self._make_pod(owner, f"{name}-{slot}")
            for _, _, pod in [key for key in self.server.objects if key[0] == "Pod"]:
                stem, _, number = pod.rpartition("-")
                if stem == name and int(number) >= spec["replicas"]:
                    self._end_pod(pod)
            owner["status"] = {"observedGeneration": meta["generation"]}

    def _make_pod(self, owner: dict[str, Any], name: str) -> None:
        if self.no_pods and owner["metadata"]["labels"][LABEL_COMPONENT] == "executor":
            self.server.complain(owner, f"create Pod {name}: {self.no_pods}")
            return
        template = copy.deepcopy(owner["spec"]["template"])
        meta = {**template["metadata"], "name": name, "namespace": NS}
        meta["ownerReferences"] = [{"uid": owner["metadata"]["uid"], "controller": True, "kind": "StatefulSet"}]
        self.server.put(
            "Pod", {"kind": "Pod", "metadata": meta, "spec": template["spec"], "status": {"born": self.now}}
        )

    def _end_pod(self, name: str) -> None:
        """The StatefulSet's controller takes a pod away: only what holds nothing may go while a query runs."""
        pod = self.server.objects[("Pod", NS, name)]
        if "deletionTimestamp" not in pod["metadata"]:
            self.assert_may_go(pod)
            self.server.remove(("Pod", NS, name))

    def _kubelet(self) -> None:
        for key, pod in list(self.server.objects.items()):
            if key[0] != "Pod":
                continue
            meta, slot = pod["metadata"], int(key[2].rpartition("-")[2])
            if meta["uid"] in self.lost:
                continue
            if "deletionTimestamp" in meta:
                meta["ending"] = meta.get("ending", 0) + 1
                if meta["ending"] > ENDING_TICKS:
                    del self.server.objects[key]
                    self.queries.pop(meta["uid"], None)
                continue
            waits = meta["labels"][LABEL_COMPONENT] == "executor" and "phase" not in pod["status"]
            if waits and slot in self.stuck:
                continue
            if waits and slot in self.no_room:
                refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
                pod["status"].setdefault("conditions", [refused | {"lastTransitionTime": stamp(self.now)}])
                continue
            pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def _runtime(self) -> None:
        for pod in self.pods("driver"):
            meta = pod["metadata"]
            if pod["status"].get("phase") != "Running" or meta["uid"] in self.lost:
                continue
            uid, keys = meta["uid"], meta["annotations"][ANNOTATION_KEYS]
            query = self.queries.get(uid) or self.queries.setdefault(uid, self.made(uid, keys))
            if meta.get("ending", 0) > 1:
                query.state = "Stopped"  # SIGTERM is a stop in order, once the epoch is finished
            query.failing, query.ending = self.failing, self.ending
            before = self.log.epoch
            query.tick(self._registered(keys))
            self.log.committed_at = stamp(self.now) if self.log.epoch > before else self.log.committed_at

    def _registered(self, keys: str) -> set[int]:
        return {
            int(pod["metadata"]["name"].rpartition("-")[2])
            for pod in self.pods("executor")
            if pod["status"].get("phase") == "Running"
            and pod["metadata"]["uid"] not in self.lost
            and "deletionTimestamp" not in pod["metadata"]
            and pod["metadata"]["annotations"][ANNOTATION_KEYS] == keys
        }

    # ------------------------------------------------------------------------------------------------ what must always hold

    def assert_may_go(self, pod: dict[str, Any]) -> None:
        """A pod may be removed."""
        objects = self.server.objects
        assert_may_go(self, pod, objects.get(SDF), objects.get(("Secret", NS, f"{NAME}-keys")))

    def check(self) -> None:
        """What must hold at every moment."""
        assert len(self.pods("driver")) <= self.drivers, "too many drivers"
        running = [query for query in self.queries.values() if query.state == "Running"]
        assert len(running) <= 1, "two queries"
        for (kind, _, name), found in self.server.objects.items():
            assert kind == "Pod" or not found["metadata"].get("finalizers"), f"{kind} {name} has a finalizer"
            if kind == "Secret":
                known = self.secrets.setdefault(found["metadata"]["uid"], copy.deepcopy(found["data"]))
                assert known == found["data"], "a Secret was written over"

    def settled(self) -> bool:
        """Whether the status reports that the newest edit is in place."""
        found = self.server.objects.get(SDF)
        return found is not None and self.status.get("settledGeneration") == found["metadata"]["generation"]

    def converge(self, ticks: int = 150) -> None:
        """Nothing fails any more: the cluster must converge to the spec."""
        self.no_room, self.stuck, self.failing, self.no_pods = set(), set(), "", ""
        self.silent, self.ending, self.server.down, self.server.refusing = False, False, False, {}
        self.run(2)
        for _ in range(ticks):
            if self.settled() and problems(self) == []:
                return
            self.run(1)
        raise AssertionError(f"{problems(self)}; the status is {self.status}")
