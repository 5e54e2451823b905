"""A simulated cluster with two drivers, each of which waits until it is activated; the log fences the one that was active before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim_cluster import NAME, NS, SimCluster
from sim_control import SimControl
from sim_runtime import Query
from sim_settings import settings_of

from binshift_operator.children import hash_keys, read_keys
from binshift_operator.errors import TimedOut
from binshift_operator.model.names import LABEL_COMPONENT, DataflowKey


class StandbyQuery(Query):
    """The process in a driver's pod: it loads, waits, and once it is activated and has loaded, runs the query.

    Attributes:
        active: whether it was activated; ``activations``: how often that was requested.
        warm: the executors that have rehearsed while it waits.
    """

    active = False
    activations = 0
    warm: Sequence[int] = ()

    def tick(self, registered: set[int]) -> None:
        """A moment passes."""
        if self.state == "Standby" and self.active:
            self.state = "Loading"
        if self.active or self.failing:
            super().tick(registered)
        elif self.state == "Loading":
            self.state, self.warm = "Standby", sorted(registered)
        elif self.state == "Failed":
            self.state = "Loading"

    def answer(self, method: str, path: str, body: Any) -> Any:
        """What the control API answers."""
        if (method, path) == ("POST", "/v1/activate"):
            self.active, self.activations = True, self.activations + 1
            return self._shown()
        if (method, path) == ("GET", "/v1/dataflow"):
            rehearsed = {"registered": self.warm} if self.state == "Standby" else {}
            return {**self._shown(), "active": self.active, **rehearsed}
        return super().answer(method, path, body)


class StandbyCluster(SimCluster):
    """See the module.

    Attributes:
        unreachable: UIDs of drivers' pods that the operator does not reach, although they run.
    """

    def __post_init__(self) -> None:
        self.unreachable: set[str] = set()
        self.drivers = 2
        super().__post_init__()

    def start(self, replicas: int = 2) -> StandbyCluster:
        """A user creates the claim and the dataflow."""
        super().start(replicas)
        self.dataflow["spec"]["driver"] = {"standby": True}
        return self

    def made(self, uid: str, keys: str) -> Query:
        """The process in a new driver's pod; it waits if its template has that variable."""
        (pod,) = (each for each in self.pods("driver") if each["metadata"]["uid"] == uid)
        variables = {each["name"] for each in pod["spec"]["containers"][0]["env"]}
        kind = StandbyQuery if "BINSHIFT_DRIVER_HOSTS" in variables else Query
        return kind(self.log, uid, keys, settings=settings_of(self.server.objects))

    def driver(self, slot: int) -> StandbyQuery:
        """The process in a driver's pod, which exists."""
        found = self.queries[self.uid(slot)]
        assert isinstance(found, StandbyQuery)
        return found

    def uid(self, slot: int) -> str:
        """Of a driver's pod."""
        uid: str = self.server.objects[("Pod", NS, f"{NAME}-driver-{slot}")]["metadata"]["uid"]
        return uid

    def address(self, key: DataflowKey, ip: str) -> str | None:
        """Where a driver's control API is: its pod's UID is its address here."""
        return ip or None

    def _connected(self, address: str, token: str, *_: Any) -> SimControl:
        found = read_keys(self.server.objects.get(("Secret", NS, f"{NAME}-keys"), {}))
        return _Control(self, address, token, hash_keys(found) if found else "")

    def _kubelet(self) -> None:
        super()._kubelet()
        for pod in self.pods("driver"):
            if pod["status"].get("phase") == "Running" and pod["metadata"]["uid"] not in self.lost:
                pod["status"]["podIP"] = pod["metadata"]["uid"]
                query = self.queries.get(pod["metadata"]["uid"])
                ready = query is not None and query.state in ("Running", "Standby")
                pod["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]

    def _runtime(self) -> None:
        super()._runtime()
        running = [query for query in self.queries.values() if query.state == "Running"]
        for query in running if len(running) > 1 else ():
            assert isinstance(query, StandbyQuery)
            if query.pod in self.unreachable | self.lost:
                query.state = "Fenced"

    def runs_beside(self, uid: str) -> bool:
        """Whether a driver in another pod runs a query, answers, and is not to end."""
        others = [
            pod["metadata"] for pod in self.pods("driver") if pod["metadata"]["uid"] not in {uid, *self.unreachable}
        ]
        found = (self.queries.get(meta["uid"]) for meta in others if "deletionTimestamp" not in meta)
        return any(query is not None and query.state == "Running" for query in found)

    def kill(self, slot: int) -> None:
        """The process in a driver's pod ends; the kubelet starts it again in a moment."""
        del self.queries[self.uid(slot)]

    def assert_may_go(self, pod: dict[str, Any]) -> None:
        """A pod may be removed: an active driver only if it does not answer."""
        if pod["metadata"]["labels"][LABEL_COMPONENT] == "executor":
            super().assert_may_go(pod)
            return
        query = self.queries.get(pod["metadata"]["uid"])
        answers = query is not None and pod["metadata"]["uid"] not in self.unreachable | self.lost
        running = query is not None and query.state == "Running"
        assert not (answers and running), "a driver is taken while its query runs"


class _Control(SimControl):
    __slots__ = ("_cluster",)
    _cluster: tuple[StandbyCluster, str]

    def __init__(self, cluster: StandbyCluster, uid: str, token: str, keys: str) -> None:
        def query() -> Query | None:
            return None if cluster.silent else cluster.queries.get(uid)

        super().__init__(token, query, cluster._driver_was_written_to, keys)
        object.__setattr__(self, "_cluster", (cluster, uid))

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        cluster, uid = self._cluster
        if uid in cluster.unreachable | cluster.lost:
            raise TimedOut("no answer in time")
        if path == "/v1/activate":
            assert not cluster.runs_beside(uid), "a driver is activated while another one runs"
        return super()._request(method, path, body)
