"""The rim: configuration, the two HTTP clients, how pods are read, events, probes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml
from crd_cases import BASE
from prometheus_client.registry import CollectorRegistry
from sim_server import SimServer
from test_crd import ROOT

from binshift_operator import control as control_module
from binshift_operator import events, kube
from binshift_operator.configuration import Configuration
from binshift_operator.control import Control, runtime_of
from binshift_operator.errors import Changed, Forbidden, Invalid, InvalidConfiguration, NotThere, Unreachable
from binshift_operator.kube import Kube
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import Key
from binshift_operator.model.specification import read
from binshift_operator.model.world import PodState, RunState
from binshift_operator.phases import Told
from binshift_operator.pods import pod_of
from binshift_operator.probes import ProbeServer

KEY = Key("ns", "clicks", "u")


def test_configuration_from_the_environment() -> None:
    """Variables are read, limits by their names."""
    found = Configuration.from_environment({"BINSHIFT_NAMESPACES": "a, b", "BINSHIFT_REGISTRATION_WAIT_SECONDS": "7"})
    assert found.namespaces == ("a", "b")
    assert found.limits.registration_wait_seconds == 7.0
    assert Configuration.from_environment({}) == Configuration()


@pytest.mark.parametrize(
    "wrong", [{"BINSHIFT_WORKERS": "many"}, {"BINSHIFT_LOG_LEVEL": "loud"}, {"BINSHIFT_HTTP_PORT": "-1"}]
)
def test_wrong_configuration_is_named(wrong: dict[str, str]) -> None:
    """A variable that does not fit is named in the error."""
    with pytest.raises(InvalidConfiguration, match=next(iter(wrong))):
        Configuration.from_environment(wrong)


class Answers:
    """Stands for the network: gives prepared answers, and notes what was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, []

    def open(self, request: urllib.request.Request, timeout: float) -> Any:
        self.asked.append((request.get_method(), request.full_url, request.data, request.headers))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self

    def read(self, most: int) -> bytes:
        return json.dumps(self.answer).encode()

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def refusal(status: int, message: str) -> urllib.error.HTTPError:
    """An answer that is an error."""
    import io

    return urllib.error.HTTPError("u", status, "no", {}, io.BytesIO(json.dumps({"message": message}).encode()))  # type: ignore[arg-type]


def test_target_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target carries owner, generation, workers and the migration policy, with the token, which never shows."""
    answers = Answers({"migration": None})
    monkeypatch.setattr(control_module, "_OPENER", answers)
    manifest = {**BASE, "metadata": {**BASE["metadata"], "namespace": "ns", "uid": "u", "generation": 3}}
    control = Control("http://driver:7400", "secret-token")
    control.put_target(read(manifest), 3001, (0, 1))
    method, url, data, headers = answers.asked[0]
    assert (method, url) == ("PUT", "http://driver:7400/v1/target")
    assert headers["Authorization"] == "Bearer secret-token"
    assert json.loads(data) == {
        "owner": "u",
        "generation": 3001,
        "workers": [0, 1],
        "strategy": "Optimized",
        "batchSize": 256,
        "preCopy": True,
        "latencyTargetSeconds": 1.0,
    }
    assert "secret-token" not in repr(control)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(409, "outdated"), Changed),
        (refusal(401, "who are you"), Forbidden),
        (refusal(422, "no such field"), Invalid),
        (refusal(404, "no such migration"), NotThere),
        (refusal(503, "not yet"), Unreachable),
        (OSError("refused"), Unreachable),
    ],
    ids=lambda each: getattr(each, "code", getattr(each, "__name__", "silence")),
)
def test_answers_become_errors(monkeypatch: pytest.MonkeyPatch, answer: Exception, error: type[Exception]) -> None:
    """What the driver says no to becomes the error that the operator acts upon."""
    monkeypatch.setattr(control_module, "_OPENER", Answers(answer))
    with pytest.raises(error):
        Control("http://driver", "t").stop()


def test_what_is_not_understood_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of a newer driver is as good as no answer."""
    monkeypatch.setattr(control_module, "_OPENER", Answers({"state": "Dreaming"}))
    with pytest.raises(Unreachable):
        Control("http://driver", "t").dataflow()


def test_control_apis_own_answer_is_understood() -> None:
    """The models of the control API give an answer that is read in full."""
    models = pytest.importorskip("binshift.control.models")
    latency = models.Latency(epochs=1, p50_seconds=0.1, p95_seconds=0.2, p99_seconds=0.3, max_seconds=0.4)
    said = models.Dataflow(
        state=models.State.RUNNING,
        epoch=9,
        committed_at=models.moment(1e9),
        route_version=4,
        workers=[0, 1],
        registered=[0],
        latency=latency,
        target=models.Target(
            owner="u", generation=3001, workers=[0], strategy="Fluid", batch_size=1, pre_copy=True,
            latency_target_seconds=1.0, effective_workers=[0], settled=False,
        ),
        migration=models.Migration(
            id=2, phase="copying", reason="", generation=3001, workers=[0], strategy="Fluid", batch_size=1, pre_copy=True,
            bins_moved=3, bins_total=8, started_at=models.moment(1e9), ended_at=None, latency_before=latency,
        ),
    )  # fmt: skip
    found = runtime_of(json.loads(said.model_dump_json(by_alias=True)))
    assert (found.state, found.epoch, found.committed_at, found.route_version) == (RunState.RUNNING, 9, 1e9, 4)
    assert (found.holding, found.registered, found.latency_p99) == ({0, 1}, {0}, 0.3)
    assert found.target is not None
    assert (found.target.generation, found.target.settled) == (3001, False)
    assert found.migration is not None
    assert (found.migration.bins_moved, found.migration.latency_before, found.migration_workers) == (3, 0.3, {0})


def pod(status: dict[str, Any], **meta: Any) -> Any:
    """A pod with this status, as the operator sees it at second 1000."""
    metadata = {"name": "clicks-executor-12", "uid": "p", "labels": {"app.kubernetes.io/component": "executor"}, **meta}
    return pod_of({"metadata": metadata, "status": status}, now=1000.0)


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    """The status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "worker", "image": "img:1", "state": state, **more}]}


RUNNING = {"running": {"startedAt": "1970-01-01T00:15:10Z"}}
LONG_RUNNING = {"running": {"startedAt": "1970-01-01T00:14:30Z"}}
OOM = {"lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": "1970-01-01T00:15:00Z"}}, "restartCount": 2}
OLD_OOM = {"lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": "1970-01-01T00:00:00Z"}}}
ENDED = {"lastState": {"terminated": {"exitCode": 1, "message": "KeyError: 'x'"}}}


@pytest.mark.parametrize(
    ("status", "state", "said"),
    [
        ({}, PodState.FINE, ""),
        (waiting("ContainerCreating"), PodState.NOT_STARTED, "containers worker: ContainerCreating"),
        ({"containerStatuses": [{"name": "worker", "state": RUNNING, **OOM}]}, PodState.OUT_OF_MEMORY, "limits.memory"),
        ({"containerStatuses": [{"name": "worker", "state": LONG_RUNNING, **OOM}]}, PodState.FINE, ""),
        (waiting("ErrImageNeverPull", "not present"), PodState.IMAGE, "img:1"),
        (waiting("ImagePullBackOff", "Back-off"), PodState.IMAGE, "Back-off"),
        (waiting("CreateContainerConfigError", 'secret "s3" not found'), PodState.CONFIG, "s3"),
        (waiting("CrashLoopBackOff", **OOM), PodState.OUT_OF_MEMORY, "limits.memory"),
        (waiting("CrashLoopBackOff", **ENDED), PodState.CRASHING, "KeyError: 'x'"),
        ({"containerStatuses": [{"name": "worker", "state": {"running": {}}, **OLD_OOM}]}, PodState.FINE, ""),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, PodState.EVICTED, "low on memory"),
    ],
)
def test_what_is_wrong_with_a_pod(status: dict[str, Any], state: PodState, said: str) -> None:
    """A pod's trouble is told in the words of whoever found it."""
    found = pod(status)
    assert found.state is state
    assert said in found.message
    assert (found.slot, found.is_driver) == (12, False)


@pytest.mark.parametrize(
    ("reason", "state"), [("Unschedulable", PodState.UNSCHEDULABLE), ("SchedulerError", PodState.FINE)]
)
def test_what_the_scheduler_says(reason: str, state: PodState) -> None:
    """Only a pod for which there is no room is told of; the scheduler's own hiccups pass."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/3 nodes are available"}
    assert pod({"conditions": [condition]}).state is state


def test_pod_that_ends() -> None:
    """Since when a pod ends is when it was asked to, not when it must have."""
    found = pod({}, deletionTimestamp="1970-01-01T00:10:00Z", deletionGracePeriodSeconds=120)
    assert (found.going_since, found.grace_seconds) == (480.0, 120.0)


def test_events_are_counted() -> None:
    """The same told again is one event that happened twice."""
    server = SimServer(lambda: 0.0)
    events.tell(
        Kube(server), KEY, [Told("Ready", "yes"), Told("Ready", "yes"), Told("NotReady", "no", warning=True)], 5.0
    )
    found = {each["reason"]: each for each in server.listed("Event", "ns")}
    assert (found["Ready"]["count"], found["NotReady"]["count"]) == (2, 1)
    assert found["NotReady"]["type"] == "Warning"
    assert found["Ready"]["involvedObject"]["uid"] == "u"


def test_events_never_fail() -> None:
    """An event that cannot be written stops nothing."""
    server = SimServer(lambda: 0.0)
    server.down = True
    events.tell(Kube(server), KEY, [Told("Ready", "yes")], 5.0)


def test_long_lists_are_read_page_by_page() -> None:
    """A list goes on where the server says."""
    pages = [{"items": [1], "metadata": {"continue": "more"}}, {"items": [2], "metadata": {}}]
    asked = []

    def answer(method: str, path: str, query: Any, body: Any, kind: str) -> tuple[int, bytes]:
        asked.append(dict(query))
        return 200, json.dumps(pages[len(asked) - 1]).encode()

    assert Kube(answer).list("Pod", "ns", "a=b") == [1, 2]
    assert asked[1]["continue"] == "more"


def test_probes() -> None:
    """Health says why not, metrics are there, everything else is not."""
    registry = CollectorRegistry()
    OperatorMetrics(registry)
    server = ProbeServer(0, lambda: "", lambda: "not yet", registry)
    server.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        assert urllib.request.urlopen(f"{url}/healthz", timeout=5).status == 200
        assert b"binshift_operator_dataflows" in urllib.request.urlopen(f"{url}/metrics", timeout=5).read()
        for path, status in (("/readyz", 503), ("/secrets", 404)):
            with pytest.raises(urllib.error.HTTPError) as no:
                urllib.request.urlopen(url + path, timeout=5)
            assert no.value.code == status
    finally:
        server.stop()


USED = {
    "StreamingDataflow": {"get", "list", "watch"},
    "StatefulSet": {"get", "list", "watch", "create", "patch"},
    "Service": {"get", "create", "patch"},
    "ConfigMap": {"get", "create", "patch"},
    "ServiceAccount": {"get", "create", "patch"},
    "NetworkPolicy": {"get", "create", "patch"},
    "PodDisruptionBudget": {"get", "create", "patch"},
    "Secret": {"get", "create"},
    "Pod": {"list", "watch", "delete"},
    "PersistentVolumeClaim": {"get"},
    "Event": {"get", "list", "create", "patch"},
}


def test_rights_are_those_that_are_used() -> None:
    """The chart gives the operator the verbs it uses, and no other; a Secret can be neither listed nor changed."""
    text = (ROOT / "charts" / "binshift" / "templates" / "_names.tpl").read_text(encoding="utf-8")
    rules = yaml.safe_load(text.partition('{{- define "binshift.rules" -}}')[2].partition("{{- end }}")[0])
    given: dict[str, set[str]] = {}
    for rule in rules:
        for resource in rule["resources"]:
            given.setdefault(resource, set()).update(rule["verbs"])
    assert given.pop("streamingdataflows/status") == {"patch"}
    assert given == {kube.PATHS[kind][1]: verbs for kind, verbs in USED.items()}
