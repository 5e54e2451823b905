"""The children as rendered: safe, complete, stable; and distinct from drifted ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from crd_cases import BASE, FULL, GONE, S3, changed
from hypothesis import given
from hypothesis import strategies as st
from rendering import WITH_STANDBY, render_all

from binshift.errors import InvalidSettings
from binshift.ports import Ports
from binshift_operator.children import (
    RenderContext,
    compare,
    hash_keys,
    read_keys,
    render_secret,
    with_applied_hash,
)
from binshift_operator.children.spark_conf import format_properties, spark_conf
from binshift_operator.model.names import KEYS, Child
from binshift_operator.model.observed import ChildState
from binshift_operator.model.specification import Dataflow, parse, restart_hash


def dataflow(changes: dict[str, Any] | None = None) -> Dataflow:
    """One as the API server has it."""
    made = changed(changes or {})
    made["metadata"] |= {"namespace": "ns", "uid": "uid-1", "generation": 1}
    return parse(made)


def all_of(changes: dict[str, Any] | None = None, keys: str | None = "k") -> dict[Child, Any]:
    """Its children."""
    return render_all(dataflow(changes), keys, RenderContext("binshift-system", "binshift"))


def pods(changes: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The templates of its pods."""
    children = all_of(changes)
    return [children[child]["spec"]["template"] for child in (Child.DRIVER, Child.EXECUTORS)]


@pytest.mark.parametrize("changes", [{}, S3, FULL], ids=["least", "object store", "every field"])
def test_pods_are_restricted(changes: dict[str, Any]) -> None:
    """Every pod passes the restricted Pod Security Standard, has a read-only root and no token of the API server."""
    for pod in pods(changes):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"].get("runAsUser", 1) > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any("hostPath" in volume for volume in spec["volumes"])
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert not {"command"} & container.keys(), "the image's init process comes first"


def test_every_child_is_owned() -> None:
    """Every child is deleted with its dataflow, names its owner, and does not block the owner's deletion."""
    children = all_of(WITH_STANDBY)
    assert set(children) == set(Child) - {Child.KEYS}
    for manifest in (*children.values(), render_secret(dataflow().key, lambda: "x")):
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("uid-1", True, False)
        assert manifest["metadata"]["labels"]["binshift.dev/dataflow-uid"] == "uid-1"
        assert "finalizers" not in manifest["metadata"]


def test_only_the_operator_replaces_pods() -> None:
    """Both StatefulSets start all pods at once and replace none by themselves; how many there are is no part of them."""
    for child in (Child.DRIVER, Child.EXECUTORS):
        spec = all_of()[child]["spec"]
        assert spec["podManagementPolicy"] == "Parallel"
        assert spec["updateStrategy"] == {"type": "OnDelete"}
        assert "replicas" not in spec


def test_without_the_secret_there_are_no_pods() -> None:
    """A template needs the Secret's fingerprint."""
    assert {Child.DRIVER, Child.EXECUTORS}.isdisjoint(all_of(keys=None))


def test_environment_of_the_processes() -> None:
    """Each container gets the variables that `binshift.hosting.pod` reads, secrets only by reference."""
    driver, executor = pods()
    containers = {each["name"]: each for pod in (driver, executor) for each in pod["spec"]["containers"]}
    env = {name: {each["name"]: each for each in container["env"]} for name, container in containers.items()}
    assert env["driver"]["BINSHIFT_MASTER"]["value"] == "spark://clicks-driver-0.clicks-driver:7077"
    assert env["driver"]["BINSHIFT_CHECKPOINT"]["value"] == "/checkpoint/clicks"
    assert env["driver"]["BINSHIFT_OWNER"]["value"] == "uid-1"
    assert env["worker"]["BINSHIFT_CONTROL_URL"]["value"] == "http://clicks-driver-0.clicks-driver:7400"
    assert env["worker"]["BINSHIFT_HOST"]["value"] == "$(BINSHIFT_POD).clicks-executor"
    assert list(env["worker"]).index("BINSHIFT_POD") < list(env["worker"]).index("BINSHIFT_HOST")
    assert "BINSHIFT_TOKEN" not in env["worker"]
    assert "BINSHIFT_TOKEN" not in env["master"]
    for name in ("BINSHIFT_TOKEN", "BINSHIFT_DRAIN_TOKEN", "_SPARK_AUTH_SECRET"):
        assert env["driver"][name]["valueFrom"]["secretKeyRef"]["name"] == "clicks-keys"
    assert containers["driver"]["args"] == ["python", "-m", "binshift.hosting.pod.driver", "/app/clicks.py"]


def test_the_users_part() -> None:
    """The user's pod settings are in the pods, and the pod's variables override the application's."""
    driver, executor = pods(FULL)
    worker = executor["spec"]["containers"][0]
    level = [each["value"] for each in worker["env"] if each["name"] == "LEVEL"]
    assert level == ["debug"]
    assert worker["envFrom"] == [{"secretRef": {"name": "s3"}}]
    assert {"name": "data", "mountPath": "/data"} in worker["volumeMounts"]
    assert executor["metadata"]["labels"]["team"] == "a"
    assert executor["spec"]["priorityClassName"] == "high"
    assert driver["spec"]["nodeSelector"] == {"zone": "a"}
    assert driver["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    state = next(volume for volume in executor["spec"]["volumes"] if volume["name"] == "binshift-state")
    assert "ephemeral" in state


def test_binshifts_labels_cannot_be_replaced() -> None:
    """A user's label with the key of one of the operator's does not take pods away from their services."""
    stolen = {"spec.driver": {"pod": {"labels": {"binshift.dev/dataflow-uid": "x"}}}}
    assert pods(stolen)[0]["metadata"]["labels"]["binshift.dev/dataflow-uid"] == "uid-1"


def test_services_come_before_readiness() -> None:
    """Pods find each other before they are ready, and the ports are those the processes listen on."""
    service = all_of()[Child.DRIVER_SERVICE]["spec"]
    assert service["publishNotReadyAddresses"] is True
    assert {each["port"] for each in service["ports"]} <= set(vars_of_ports())


def vars_of_ports() -> list[int]:
    """The table of ports."""
    return [getattr(Ports(), name) for name in Ports.__slots__]


def test_ingress() -> None:
    """The control API is open to the dataflow's own pods and to the operator, metrics to all, and everything else to no other client."""
    spec = all_of()[Child.NETWORK_POLICY]["spec"]
    own, operator, health = spec["ingress"]
    assert own["from"] == [{"podSelector": {"matchLabels": {"binshift.dev/dataflow-uid": "uid-1"}}}]
    assert operator["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "binshift-system"}
    assert [each["port"] for each in operator["ports"]] == [7400]
    assert health == {"ports": [{"protocol": "TCP", "port": 7401}]}


def test_users_spark_conf_wins() -> None:
    """A user's memory setting replaces the rule; a container that is too small for the rule is reported."""
    given_by_user = dataflow({"spec.sparkConf": {"spark.executor.memory": "1g", "spark.x": "y\\z"}})
    found = spark_conf(given_by_user)
    assert (found["spark.executor.memory"], found["spark.x"]) == ("1g", "y\\z")
    assert "spark.x y\\\\z\n" in format_properties(found)
    with pytest.raises(InvalidSettings, match="give its container"):
        spark_conf(dataflow({"spec.executor": {"resources": {"limits": {"memory": "600Mi"}}}}))


LIVE_EDITS = [{"spec.replicas": 9}, {"spec.suspend": True}, {"spec.migration": {"strategy": "Fluid"}}]
RESTARTS = [
    {"spec.image": "other"},
    {"spec.restartNonce": 1},
    {"spec.sparkConf": {"spark.a": "b"}},
    {"spec.application.args": ["x"]},
    {"spec.executor": {"taskSlots": 4}},
    {"spec.driver": {"resources": {"limits": {"memory": "1536Mi"}}}},
]


@pytest.mark.parametrize("edit", LIVE_EDITS, ids=str)
def test_live_edits_touch_no_pod(edit: dict[str, Any]) -> None:
    """Live edits change no template."""
    assert pods(edit) == pods()


@pytest.mark.parametrize("edit", RESTARTS, ids=str)
def test_restart_edits_are_seen_on_pods(edit: dict[str, Any]) -> None:
    """An edit of the restart class changes the hash that pods carry."""
    before, after = (
        [pod["metadata"]["annotations"]["binshift.dev/restart-hash"] for pod in pods(e)] for e in ({}, edit)
    )
    assert before[0] == before[1]
    assert set(before).isdisjoint(after)


def test_defaults_filled_in_later_restart_nothing() -> None:
    """What a newer definition adds to an object by default does not count as written."""
    written = BASE["spec"]
    filled = {**written, "bins": 4096, "restartNonce": 0, "driver": {"pod": {}}, "executor": {"storage": {}}}
    assert restart_hash(filled) == restart_hash(written)


def live_object(manifest: dict[str, Any]) -> dict[str, Any]:
    """An applied manifest as the server has it, with defaults."""
    live = copy.deepcopy(with_applied_hash(manifest))
    live["metadata"] |= {"uid": "u", "resourceVersion": "5", "generation": 2}
    live.setdefault("spec", {})["fromTheServer"] = {"defaulted": True}
    live["status"] = {"observedGeneration": 2}
    return live


@pytest.mark.parametrize("child", [child for child in Child if child is not Child.KEYS])
def test_own_work_is_recognised(child: Child) -> None:
    """What was applied, and only filled up with defaults, is as rendered; what was changed or is rendered otherwise now is not."""
    manifest = all_of(WITH_STANDBY)[child]
    live = live_object(manifest)
    assert compare(live, manifest, dataflow().key).state is ChildState.CURRENT
    changed_by_hand = copy.deepcopy(live)
    changed_by_hand["metadata"]["labels"]["app.kubernetes.io/name"] = "mine"
    assert compare(changed_by_hand, manifest, dataflow().key).state is ChildState.DRIFTED
    newer = {**manifest, "more": "x"}
    assert compare(live, newer, dataflow().key).state is ChildState.DRIFTED


def test_less_than_before_is_drift() -> None:
    """A toleration that is no longer requested is drift, although all requested ones exist."""
    more = all_of({"spec.executor": {"pod": {"tolerations": [{"operator": "Exists"}]}}})[Child.EXECUTORS]
    assert compare(live_object(more), all_of()[Child.EXECUTORS], dataflow().key).state is ChildState.DRIFTED


def test_quantities_in_the_servers_spelling() -> None:
    """The server writes quantities its own way, which is no drift."""
    manifest = all_of({"spec.executor": {"resources": {"limits": {"cpu": "0.5", "memory": "2048Mi"}}}})[Child.EXECUTORS]
    live = live_object(manifest)
    live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "500m", "memory": "2Gi"}
    assert compare(live, manifest, dataflow().key).state is ChildState.CURRENT


def test_whose_it_is() -> None:
    """An object is ours by its owner's UID; one of an earlier dataflow of the name is going, any other is foreign."""
    manifest, key = all_of()[Child.SPARK_CONF], dataflow().key
    assert compare(None, manifest, key).state is ChildState.ABSENT
    other = live_object(manifest)
    other["metadata"]["ownerReferences"][0]["uid"] = "uid-0"
    assert compare(other, manifest, key).state is ChildState.DELETING
    del other["metadata"]["ownerReferences"]
    assert compare(other, manifest, key).state is ChildState.FOREIGN
    going = live_object(manifest)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert compare(going, manifest, key).state is ChildState.DELETING


@given(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1), min_size=3, max_size=3))
def test_keys_are_read_back(drawn: list[str]) -> None:
    """The keys in a Secret are the drawn ones, and their fingerprint differs from that of other keys."""
    secrets = iter(drawn)
    secret = render_secret(dataflow().key, lambda: next(secrets))
    found = read_keys(secret)
    assert found == dict(zip(KEYS, drawn, strict=True))
    assert hash_keys(found) != hash_keys({**found, KEYS[0]: found[KEYS[0]] + "x"})


@pytest.mark.parametrize("data", [None, {}, {"control-token": "!"}, dict.fromkeys(KEYS, "")])
def test_damaged_secrets_are_none(data: dict[str, str] | None) -> None:
    """A Secret that lacks a key, or has one that cannot be read, is none."""
    assert read_keys({"data": data}) is None


def test_table_has_no_leftover() -> None:
    """The table's marker for a missing field never reaches a manifest."""
    assert GONE not in changed({"spec.image": GONE})["spec"].values()
