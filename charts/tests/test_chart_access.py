"""What the chart gives whom: the operator its Lease and a user, people their roles, and Prometheus one way to find the operator."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_chart_rendered import MONITORED, SYSTEM, helm, operator_pod, rendered, run

from binshift_operator.configuration import Configuration

__all__ = ["helm"]
pytestmark = pytest.mark.chart

IDS = {"runAsUser", "runAsGroup", "fsGroup"}


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """The operator's environment, as far as it is known before there is a pod."""
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


def test_one_pod_acts(helm: str) -> None:
    """By itself the chart has the operator take a Lease that it has the rights for, and no other; the next pod comes before the last one ends."""
    found = rendered(helm)
    deployment, role = found["Deployment", "binshift-operator"], found["Role", "binshift-operator-lease"]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    lease = Configuration.from_environment(environment(operator_pod(found))).lease
    create, change = role["rules"]
    assert (create["verbs"], change["verbs"], change["resourceNames"]) == (["create"], ["get", "patch"], [lease])
    assert "resourceNames" not in create
    binding = found["RoleBinding", "binshift-operator-lease"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "binshift-operator", "namespace": SYSTEM}]


def test_without_a_lease_there_is_one_pod(helm: str) -> None:
    """Then an upgrade ends the old pod first, and more pods than one are refused."""
    found = rendered(helm, leaderElection__enabled=False)
    assert found["Deployment", "binshift-operator"]["spec"]["strategy"] == {"type": "Recreate"}
    assert ("Role", "binshift-operator-lease") not in found
    assert Configuration.from_environment(environment(operator_pod(found))).lease == ""
    done = run(helm, "--set", "leaderElection.enabled=false,replicas=2")
    assert done.returncode != 0
    assert "leaderElection.enabled" in done.stderr
    assert rendered(helm, replicas=2)["Deployment", "binshift-operator"]["spec"]["replicas"] == 2


def test_a_selector_reaches_the_operator(helm: str) -> None:
    """A class of dataflows is what the operator lists and watches."""
    found = environment(operator_pod(rendered(helm, watchLabelSelector="tier in (test, dev)")))
    assert Configuration.from_environment(found).selector == "tier in (test, dev)"


def test_the_cluster_may_choose_the_user(helm: str) -> None:
    """With null, neither the operator's pod nor those of dataflows name a user; the rest of the restricted standard is still set."""
    usual, free = rendered(helm), rendered(helm, podSecurityContext=None, dataflows__podSecurityContext=None)
    for found, named in ((usual, True), (free, False)):
        pods = operator_pod(found)["spec"], found["Pod", "binshift-operator-test"]["spec"]
        for spec in pods:
            assert (spec["securityContext"].keys() >= IDS) is named
            assert named or not IDS & spec["securityContext"].keys()
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        context = Configuration.from_environment(environment(operator_pod(found))).render_context.pod_security_context
        assert context == (dict.fromkeys(IDS, 10001) if named else {})
    assert operator_pod(rendered(helm, podSecurityContext__runAsUser=5))["spec"]["securityContext"]["runAsUser"] == 5


@pytest.mark.parametrize(
    ("value", "namespaces", "granted"),
    [("auto", [], True), ("auto", ["a", "b"], False), (True, ["a", "b"], True), (False, [], False), (None, [], True)],
)
def test_nodes_are_watched_by_who_may(helm: str, value: Any, namespaces: list[str], granted: bool) -> None:
    """By itself where the operator serves all namespaces, otherwise on request: no other right, and bound to the operator alone."""
    values = {"watchNamespaces": namespaces} | ({} if value is None else {"rbac__watchNodes": value})
    found = rendered(helm, **values)
    name = f"{SYSTEM}-binshift-nodes"
    roles = [each for (kind, _), each in found.items() if kind in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in role["rules"] if "nodes" in rule["resources"]]
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    assert rules == ([nodes] if granted else [])
    assert (("ClusterRole", name) in found, ("ClusterRoleBinding", name) in found) == (granted, granted)
    if granted:
        assert found["ClusterRole", name]["rules"] == [nodes]
        binding = found["ClusterRoleBinding", name]
        assert binding["roleRef"]["name"] == name
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "binshift-operator", "namespace": SYSTEM}]


def test_no_roles_no_right_to_nodes(helm: str) -> None:
    """Without roles from the chart there is none for nodes either, and another value is refused."""
    assert not [name for kind, name in rendered(helm, rbac__create=False) if "nodes" in name]
    done = run(helm, "--set", "rbac.watchNodes=sometimes")
    assert done.returncode != 0
    assert "watchNodes" in done.stderr


def test_people_get_their_roles(helm: str) -> None:
    """The right to view or edit a namespace includes its dataflows with their snapshots and, to edit, their scale; the operator's own roles are bound to no other subject."""
    found = rendered(helm)
    label = "rbac.authorization.k8s.io/aggregate-to-"
    roles = {name: each for (kind, name), each in found.items() if kind == "ClusterRole" and "dataflows" in name}
    view, edit = roles[f"{SYSTEM}-binshift-dataflows-view"], roles[f"{SYSTEM}-binshift-dataflows-edit"]
    assert len(roles) == 2
    assert {name for name in view["metadata"]["labels"] if name.startswith(label)} == {f"{label}view"}
    assert {name for name in edit["metadata"]["labels"] if name.startswith(label)} == {f"{label}edit", f"{label}admin"}
    rights = {
        name: {r: set(rule["verbs"]) for rule in each["rules"] for r in rule["resources"]}
        for name, each in roles.items()
    }
    viewer, editor = rights.values() if "view" in next(iter(rights)) else reversed(rights.values())
    assert viewer == {
        "streamingdataflows": {"get", "list", "watch"},
        "streamingdataflows/scale": {"get"},
        "streamingdataflows/status": {"get"},
        "streamingdataflowsnapshots": {"get", "list", "watch"},
        "streamingdataflowsnapshots/status": {"get"},
    }
    assert editor["streamingdataflows/scale"] == {"update", "patch"}
    assert {"create", "update", "patch", "delete"} <= editor["streamingdataflows"]
    assert editor["streamingdataflowsnapshots"] == editor["streamingdataflows"]
    assert not any("secrets" in each for each in json.dumps(list(roles.values())).split('"'))
    off = rendered(helm, rbac__userRoles=False)
    assert not [name for kind, name in off if "dataflows" in name and kind == "ClusterRole"]


@pytest.mark.parametrize("names", [[], ["clicks", "carts"]], ids=["all", "named"])
def test_users_of_the_plugin_get_a_role(helm: str, names: list[str]) -> None:
    """On request, a role without a binding has the rights that `kubectl binshift` uses, for all dataflows or only those named."""
    found = rendered(helm, rbac__plugin__create=True, rbac__plugin__dataflows=names)
    ((added, role),) = ((key, each) for key, each in found.items() if key not in rendered(helm))
    assert added == ("ClusterRole", f"{SYSTEM}-binshift-plugin")
    every, *rules = role["rules"]
    assert (every["resources"], every["verbs"]) == (["streamingdataflows"], ["list"])
    rights = {each["resources"][0]: (set(each["verbs"]), each.get("resourceNames", [])) for each in rules}
    drivers = [f"{name}-driver-{slot}" for name in names for slot in (0, 1)]
    assert rights == {
        "streamingdataflows": ({"get", "patch"}, names),
        "secrets": ({"get"}, [f"{name}-keys" for name in names]),
        "pods": ({"get"}, drivers),
        "pods/portforward": ({"get", "create"}, drivers),
    }


@pytest.mark.parametrize(
    ("value", "monitored", "annotated"),
    [("auto", False, True), ("auto", True, False), (True, True, True), (False, False, False)],
)
def test_prometheus_finds_the_operator_once(helm: str, value: Any, monitored: bool, annotated: bool) -> None:
    """Without a PodMonitor there are annotations, unless they are disabled: a Prometheus that uses both scrapes once."""
    found = rendered(helm, *(MONITORED if monitored else ()), prometheusAnnotations=value)
    annotations = operator_pod(found)["metadata"].get("annotations") or {}
    assert ("prometheus.io/scrape" in annotations) is annotated
