"""The hostile editor against a real API server, with the real reconciler; pods and runtime are made up (`paper_pods`).

Runs where ``BINSHIFT_TEST_SERVER`` is set and KUBECONFIG leads to a cluster that has the CRD and no operator: API server, etcd and
controller manager, no scheduler, no node. Takes some minutes; ``BINSHIFT_TEST_ROUNDS``: how often every field is edited.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from crd_cases import S3, changed
from hypothesis import given, settings
from hypothesis import strategies as st
from lent_objects import lend
from paper_pods import Paper
from prometheus_client.registry import CollectorRegistry
from sim_admission import admitted
from sim_control import SimControl
from sim_editor import essence, outdated
from spec_edits import PLACES, Edit, Place, at

from binshift_operator.actor import Actor
from binshift_operator.children import RenderContext, hash_keys, read_keys
from binshift_operator.errors import OperatorError
from binshift_operator.kube import Kube, Object, ServerConnection, path_of
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import ANNOTATION_KEYS, KIND, LABEL_UID, Child, DataflowKey
from binshift_operator.model.situation import Timeouts
from binshift_operator.observe import Observer
from binshift_operator.reconcile import Reconciler, Result

pytestmark = pytest.mark.skipif(not os.environ.get("BINSHIFT_TEST_SERVER"), reason="BINSHIFT_TEST_SERVER is not set")

ROUNDS = int(os.environ.get("BINSHIFT_TEST_ROUNDS", "3"))
LIVES = 10
AT_ONE_TIME = 4
SECONDS_MAX = 60.0
REPORTED = ("InvalidSpec", "Refused", "PodsNotCreated", "CredentialsMissing", "ServiceAccountNotFound")
"""Why a spec that the API server has taken is not carried out."""
LIMITS = Timeouts(
    registration_wait_seconds=20,
    stop_wait_seconds=2,
    retry_seconds=1,
    pods_wait_seconds=10,
    busy_seconds=0.1,
    rest_seconds=0.3,
)
GOOD = {**changed(S3)["spec"], "replicas": 2}


class Edited:
    """One dataflow and the operator that reconciles it."""

    def __init__(self, connection: ServerConnection, namespace: str, spec: dict[str, Any]) -> None:
        self.connection, self.kube, self.paper = connection, Kube(connection), Paper(connection)
        self.namespace, self.name = namespace, f"d{uuid.uuid4().hex[:8]}"
        self.disagreements: list[str] = []
        observer = Observer(self.kube, lambda *_: "", RenderContext(), time.time, self._connected)
        metrics = OperatorMetrics(CollectorRegistry())
        self.reconciler = Reconciler(self.kube, observer, Actor(self.kube), LIMITS, metrics, time.time, 5.0)
        lend(self.kube, namespace, spec)
        meta = {"name": self.name, "namespace": namespace}
        self.kube.create({**changed({}), "metadata": meta, "spec": spec})

    def _connected(self, address: str, token: str, *_: Any) -> SimControl:
        secret = self.kube.get("Secret", self.namespace, f"{self.name}-keys")
        return SimControl(token, self.paper.query, lambda write: None, hash_keys(read_keys(secret or {}) or {}))

    @property
    def found(self) -> Object:
        """The resource."""
        found = self.kube.get(KIND, self.namespace, self.name)
        assert found is not None
        return found

    def edit(self, edit: Edit) -> None:
        """As a user would; whether it is rejected must equal the simulated server's decision."""
        found = self.found
        self.replace(edit.of(found["spec"]), found)

    def replace(self, spec: dict[str, Any], found: Object | None = None) -> None:
        """Put another spec in place of the whole."""
        found = self.found if found is None else found
        wanted, path = {**found, "spec": spec}, path_of(KIND, self.namespace, self.name)
        made, wrong = admitted({**wanted, "metadata": {**found["metadata"]}}, found)
        if not wrong:
            try:
                lend(self.kube, self.namespace, made["spec"])
            except OperatorError:
                return None  # no object can have such a name
        status, answer = self.connection("PUT", path, {}, wanted, "application/json")
        if status == 409:
            return self.replace(spec)
        if bool(wrong) is (status < 400):
            self.disagreements.append(f"{status} {answer[:600]!r} and {wrong} for {json.dumps(spec)[:600]}")
        if status >= 400:
            assert self.found["metadata"]["generation"] == found["metadata"]["generation"]
        return None

    def step(self) -> None:
        """The operator reconciles, and time passes for pods and runtime."""
        try:
            if self.reconciler.reconcile(self.namespace, self.name) == Result():
                return
        except OperatorError:
            pass
        self.paper.saw(self.kube.list("Pod", self.namespace, f"app.kubernetes.io/instance={self.name}"))
        self.paper.tick()

    def settle(self) -> str:
        """Until the newest edit is in place, or an error is reported: its reason, empty if the edit is in place."""
        deadline, since = time.monotonic() + SECONDS_MAX, 0.0
        while time.monotonic() < deadline:
            self.step()
            found = self.found
            status, generation = found.get("status") or {}, found["metadata"]["generation"]
            degraded: dict[str, Any] = next(
                (each for each in status.get("conditions", ()) if each["type"] == "Degraded"), {}
            )
            if status.get("observedGeneration") == generation and degraded:
                if status.get("settledGeneration") == generation and degraded["status"] == "False":
                    return ""
                if degraded["reason"] in REPORTED:
                    since = since or time.monotonic()
                    if time.monotonic() - since > 3:
                        return str(degraded["reason"])
                else:
                    since = 0.0
        raise AssertionError(f"{self.name} is not in place: {json.dumps(self.found)}")

    def children(self) -> dict[str, Any]:
        """Everything that was made for it, but for names and secrets that are drawn."""
        key = DataflowKey(self.namespace, self.name, self.found["metadata"]["uid"])
        found = {child: self.kube.get(child.kind, key.namespace, key.child(child)) for child in Child}
        driver = found[Child.DRIVER]
        assert driver is not None
        drawn = {key.uid: "OWNER", key.name: "NAME"}
        drawn[driver["spec"]["template"]["metadata"]["annotations"][ANNOTATION_KEYS]] = "KEYS"
        return {child.value: None if each is None else essence(each, drawn) for child, each in found.items()}

    def old_pods(self) -> list[str]:
        """Pods that were made for another spec than their templates."""
        template = self.kube.get("StatefulSet", self.namespace, f"{self.name}-driver")
        assert template is not None
        pods = self.kube.list("Pod", self.namespace, f"app.kubernetes.io/instance={self.name}")
        return outdated(pods, template["spec"]["template"]["metadata"]["annotations"])

    def delete(self) -> None:
        """A user deletes it: none of its objects may be left."""
        uid, deadline = self.found["metadata"]["uid"], time.monotonic() + SECONDS_MAX
        self.kube.delete(KIND, self.namespace, self.name, uid)
        while left := self.left(uid):
            assert time.monotonic() < deadline, f"left: {left}"
            time.sleep(0.3)

    def left(self, uid: str) -> list[str]:
        """What is there of a dataflow."""
        kinds = sorted({*(child.kind for child in Child), "Pod"})
        found = ((kind, each) for kind in kinds for each in self.kube.list(kind, self.namespace, f"{LABEL_UID}={uid}"))
        return [f"{kind} {each['metadata']['name']}" for kind, each in found]


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[ServerConnection, str]]:
    """A namespace of its own."""
    connection, name = ServerConnection(), f"hostile-{uuid.uuid4().hex[:6]}"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert connection("POST", "/api/v1/namespaces", {}, made, "application/json")[0] == 201
    yield connection, name
    connection(
        "DELETE", f"/api/v1/namespaces/{name}", {}, {"kind": "DeleteOptions", "apiVersion": "v1"}, "application/json"
    )


def life(place: tuple[ServerConnection, str], acts: list[tuple[Edit, int]]) -> list[str]:
    """A dataflow is made, edited, healed and deleted; what was wrong with that."""
    edited, wrong = Edited(*place, GOOD), list[str]()
    assert edited.settle() == ""
    for edit, steps in acts:
        edited.edit(edit)
        for _ in range(steps):
            edited.step()
    reason = edited.settle()
    fresh = Edited(*place, edited.found["spec"])
    if fresh.settle() != reason:
        wrong.append(f"{reason!r}, and not for a fresh one, or the other way round: {json.dumps(fresh.found)}")
    elif not reason:
        wrong += difference(edited, fresh)
    fresh.delete()
    edited.replace({**GOOD, "restartNonce": 1})
    if edited.settle() != "":
        wrong.append(f"a good spec does not heal it: {json.dumps(edited.found)}")
    edited.delete()
    return [*wrong, *edited.disagreements, *edited.paper.violations]


def difference(edited: Edited, fresh: Edited) -> list[str]:
    """What is not as with a fresh one."""
    one, other = edited.children(), fresh.children()
    found = [
        f"{child}: {json.dumps(one[child])} for {json.dumps(other[child])}"
        for child in one
        if one[child] != other[child]
    ]
    return found + [f"{name} is an old pod" for name in edited.old_pods()]


PARTS = [sorted(PLACES)[number::LIVES] for number in range(LIVES)]
"""The fields of the definition, shared out among the lives."""


def script(places: list[Place]) -> st.SearchStrategy[list[tuple[Edit, int]]]:
    """An edit of each of these fields, in any order, each with some reconciliations after it."""
    acts = [st.tuples(at(place, PLACES[place]), st.integers(0, 3)) for place in places]
    return st.tuples(*acts).flatmap(lambda chosen: st.permutations(list(chosen)))


@settings(max_examples=ROUNDS, database=None)
@given(st.tuples(*map(script, PARTS)))
def lives(found: list[str], place: tuple[ServerConnection, str], scripts: tuple[list[tuple[Edit, int]], ...]) -> None:
    """Some lives at one time; together they edit every field."""
    with ThreadPoolExecutor(AT_ONE_TIME) as threads:
        for wrong in threads.map(lambda acts: life(place, acts), scripts):
            found += wrong


def test_edits_of_a_real_server(place: tuple[ServerConnection, str]) -> None:
    """After any edits a dataflow equals a fresh one, or reports the error that a fresh one would; a good spec repairs it; nothing is left of it."""
    found: list[str] = []
    lives(found, place)
    assert found == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a label's name": ({"nodeSelector": {"a b": "c"}}, "Refused"),
    "a volume's field that is none": ({"volumes": [{"name": "x", "noSuchField": 1}]}, "Refused"),
    "two volumes of one name": ({"volumes": [{"name": "x", "emptyDir": {}}, {"name": "x", "emptyDir": {}}]}, "Refused"),
    "a mount without its volume": ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "Refused"),
    "a toleration of nothing": ({"tolerations": [{}]}, "Refused"),
    "an affinity that is none": ({"affinity": {"podAffinity": 7}}, "Refused"),
    "a field of the pod that is none": (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "no.such"}}}]},
        "Refused",
    ),
    "a variable in another order": ({"env": [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}]}, ""),
    "a variable without a value": ({"env": [{"name": "A", "value": ""}]}, ""),
    "a priority class that is not there": ({"priorityClassName": "none"}, "PodsNotCreated"),
}


@pytest.mark.parametrize("part", ["driver", "executor"])
@pytest.mark.parametrize("name", REFUSED)
def test_pods_that_cannot_be(place: tuple[ServerConnection, str], name: str, part: str) -> None:
    """Pods that the API server would reject are reported, and the stream continues with the existing ones; a good spec repairs it.

    What only the creation of a pod shows, as that its priority class is missing, is reported once the pods before it are gone.
    """
    pod, reason = REFUSED[name]
    edited = Edited(
        *place, {**GOOD, part: {"pod": {"env": [{"name": "A", "value": "0"}, {"name": "B", "value": "0"}]}}}
    )
    assert edited.settle() == ""
    pods, epoch = set(edited.paper.queries), edited.paper.log.epoch
    edited.replace({**GOOD, part: {"pod": pod}})
    assert edited.settle() == reason
    assert edited.paper.log.epoch > epoch or reason == "PodsNotCreated"
    assert (set(edited.paper.queries) == pods) == (reason == "Refused")
    if reason == "":
        fresh = Edited(*place, edited.found["spec"])
        assert fresh.settle() == ""
        assert difference(edited, fresh) == []
    edited.replace(GOOD)
    assert edited.settle() == ""
    assert edited.paper.log.epoch > epoch
    assert edited.paper.violations == []
    edited.delete()
