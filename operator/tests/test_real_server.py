"""The operator crashed after every single write to a real API server, whose controllers make the pods.

Runs where ``BINSHIFT_TEST_SERVER`` is set and KUBECONFIG leads to a cluster that has the CRD and no operator; takes two minutes. API
server, etcd and controller manager are enough. No pod ever runs, as they require a missing node: this is about the API server
alone (server-side apply, preconditions, garbage, StatefulSets). What the runtime has to do with it is in `test_reconcile_faults.py`, and
in e2e/ all of it together.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from crd_cases import changed
from prometheus_client.registry import CollectorRegistry
from sim_server import Crash

from binshift_operator.actor import Actor
from binshift_operator.children import RenderContext
from binshift_operator.errors import OperatorError
from binshift_operator.kube import Kube, Object, ServerConnection
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import ANNOTATION_KEYS, ANNOTATION_SPEC, KIND, LABEL_UID, Child
from binshift_operator.model.situation import Timeouts
from binshift_operator.observe import Observer
from binshift_operator.reconcile import Reconciler

pytestmark = pytest.mark.skipif(not os.environ.get("BINSHIFT_TEST_SERVER"), reason="BINSHIFT_TEST_SERVER is not set")

NOBODY = "http://127.0.0.1:9"
ACT_SECONDS_MAX = 120.0
WRITES_MIN = 40
"""A life takes at least so many writes; a test that crashes after fewer would miss some."""
AT_ONE_TIME = 6
PARTS = 4
"""So that no test takes longer than a minute."""
LIMITS = Timeouts(stop_wait_seconds=1, busy_seconds=0.2, rest_seconds=0.2)


class Interrupted:
    """The connection of an operator that ends right after one of its writes."""

    def __init__(self, connection: ServerConnection, after: int | None) -> None:
        self.connection, self.after, self.writes = connection, after, 0

    def __call__(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None, content_type: str
    ) -> tuple[int, bytes]:
        """See `binshift_operator.kube.Requests`."""
        status, answer = self.connection(method, path, query, body, content_type)
        if method != "GET" and status < 400:
            self.writes += 1
            if self.writes == self.after:
                raise Crash(path)
        return status, answer


class Life:
    """One dataflow, and the operators that reconcile it one after the other."""

    def __init__(self, connection: ServerConnection, namespace: str, name: str, crash_after: int | None) -> None:
        self.kube, self.namespace, self.name = Kube(connection), namespace, name
        self.connection = Interrupted(connection, crash_after)
        self.reconciler = self.operator()

    def operator(self) -> Reconciler:
        """A new process."""
        kube = Kube(self.connection)
        observer = Observer(kube, lambda *_: NOBODY, RenderContext(), time.time)
        return Reconciler(kube, observer, Actor(kube), LIMITS, OperatorMetrics(CollectorRegistry()), time.time)

    @property
    def found(self) -> Object:
        """The resource."""
        found = self.kube.get(KIND, self.namespace, self.name)
        assert found is not None
        return found

    def edit(self, **spec: Any) -> None:
        """As a user would."""
        self.kube.patch(KIND, self.namespace, self.name, {"spec": spec})

    def until(self, done: Callable[[], bool]) -> None:
        """The operator reconciles until this holds; if it crashes, the next one continues."""
        deadline = time.monotonic() + ACT_SECONDS_MAX
        while not done():
            assert time.monotonic() < deadline, f"{self.name}: {self.found.get('status')}"
            try:
                self.reconciler.reconcile(self.namespace, self.name)
            except Crash:
                self.reconciler = self.operator()
            except OperatorError:
                pass
            time.sleep(0.2)

    def pods(self) -> list[Object]:
        """Its pods."""
        return self.kube.list("Pod", self.namespace, f"{LABEL_UID}={self.found['metadata']['uid']}")

    def in_place(self) -> bool:
        """Whether there are as many pods as there should be, all made for the same spec and Secret as the newest template."""
        found, pods = self.found, self.pods()
        count = 0 if found["spec"]["suspend"] else found["spec"]["replicas"] + 1
        driver = self.kube.get("StatefulSet", self.namespace, f"{self.name}-driver")
        secret = self.kube.get("Secret", self.namespace, f"{self.name}-keys")
        observed = (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]
        if driver is None or secret is None or len(pods) != count or not observed:
            return False
        template = driver["spec"]["template"]["metadata"]["annotations"]
        return all(
            "deletionTimestamp" not in pod["metadata"]
            and all(pod["metadata"]["annotations"][a] == template[a] for a in (ANNOTATION_SPEC, ANNOTATION_KEYS))
            for pod in pods
        )

    def lived(self) -> tuple[object, ...]:
        """From its making to the loss of its Secret; what it came to."""
        nowhere = {"pod": {"nodeSelector": {"binshift.dev/nowhere": "x"}}}
        made = changed(
            {"spec.driver": nowhere, "spec.executor": nowhere, "spec.checkpoint": {"location": "s3://bucket/c"}}
        )
        made["metadata"] = {"name": self.name, "namespace": self.namespace}
        self.kube.create(made)
        self.until(self.in_place)
        for spec in (
            {"replicas": 3},
            {"image": "example/clicks:2"},
            {"suspend": True},
            {"suspend": False, "replicas": 2},
        ):
            self.edit(**spec)
            self.until(self.in_place)
        keys = f"{self.name}-keys"
        lost = self.kube.get("Secret", self.namespace, keys)
        assert lost is not None
        before = {pod["metadata"]["uid"] for pod in self.pods()}
        self.kube.delete("Secret", self.namespace, keys, lost["metadata"]["uid"])
        self.until(lambda: self.in_place() and before.isdisjoint(pod["metadata"]["uid"] for pod in self.pods()))
        return self.end()

    def end(self) -> tuple[object, ...]:
        """All its objects, by names that are the same for all runs."""
        uid = self.found["metadata"]["uid"]
        objects = []
        for kind in sorted({child.kind for child in Child} - {"Secret"}):
            for each in self.kube.list(kind, self.namespace, f"{LABEL_UID}={uid}"):
                assert not each["metadata"].get("finalizers")
                short = each["metadata"]["name"].removeprefix(self.name)
                objects.append((kind, short, (each.get("spec") or {}).get("replicas")))
        return tuple(sorted(objects, key=str))


@pytest.fixture(scope="module")
def namespace() -> Iterator[tuple[ServerConnection, str]]:
    """A namespace of its own."""
    connection, name = ServerConnection(), f"crashes-{uuid.uuid4().hex[:6]}"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert connection("POST", "/api/v1/namespaces", {}, made, "application/json")[0] == 201
    yield connection, name
    connection(
        "DELETE", f"/api/v1/namespaces/{name}", {}, {"kind": "DeleteOptions", "apiVersion": "v1"}, "application/json"
    )


@pytest.fixture(scope="module")
def calm(namespace: tuple[ServerConnection, str]) -> tuple[tuple[object, ...], int]:
    """What an undisturbed life comes to, and how many writes it takes."""
    life = Life(*namespace, "calm", None)
    return life.lived(), life.connection.writes


@pytest.mark.parametrize("part", range(PARTS))
def test_crash_after_every_write_to_a_real_server(
    namespace: tuple[ServerConnection, str], calm: tuple[tuple[object, ...], int], part: int
) -> None:
    """Whichever write an operator ends after, the next one comes to the same end."""
    wanted, writes = calm
    assert writes >= WRITES_MIN
    chosen = range(1 + part, writes + 1, PARTS)

    def disturbed(write: int) -> tuple[bool, bool]:
        life = Life(*namespace, f"c{write}", write)
        end = life.lived()
        life.kube.delete(KIND, namespace[1], life.name, life.found["metadata"]["uid"])
        return end == wanted, life.connection.writes >= write

    with ThreadPoolExecutor(AT_ONE_TIME) as threads:
        ends = list(threads.map(disturbed, chosen))
    assert [write for write, (same, _) in zip(chosen, ends, strict=True) if not same] == []
    # How many events are reported depends a little on how fast the controllers are: the last crashes may have had nothing to hit.
    assert sum(crashed for _, crashed in ends) >= WRITES_MIN // PARTS
