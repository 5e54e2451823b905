"""Users' settings for pods: identity, user and groups, grace period, spreading, and a template of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from crd_cases import FULL
from rendering import render_all
from test_children_rendering import all_of, dataflow, pods

from binshift.memory import DAEMON_HEAP_MIB
from binshift_operator.children import RenderContext, restricted
from binshift_operator.configuration import Configuration
from binshift_operator.errors import InvalidConfiguration
from binshift_operator.model.names import ANNOTATION_VERSION, Child

EVICTABLE = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def env(pod: dict[str, Any], container: str) -> dict[str, str]:
    """The variables of a container."""
    found = next(each for each in pod["spec"]["containers"] if each["name"] == container)
    return {each["name"]: each.get("value", "") for each in found["env"]}


def template(component: str, **spec: Any) -> list[dict[str, Any]]:
    """The pods of a dataflow whose component has a template with this spec."""
    return pods({f"spec.{component}": {"pod": {"template": {"spec": spec}}}})


def test_a_service_account_of_the_users() -> None:
    """Pods run as the account that is named, none is made then, and its token is not mounted."""
    children = all_of({"spec.serviceAccountName": "streams"})
    assert Child.SERVICE_ACCOUNT not in children
    for pod in pods({"spec.serviceAccountName": "streams"}):
        assert pod["spec"]["serviceAccountName"] == "streams"
        assert pod["spec"]["automountServiceAccountToken"] is False
    assert all(pod["spec"]["serviceAccountName"] == "clicks" for pod in pods())


def security(changes: dict[str, Any], installed: Any = None) -> list[dict[str, Any]]:
    """The security contexts of both pods, for this setting of the operator's installation."""
    context = RenderContext() if installed is None else RenderContext(pod_security_context=installed)
    found = render_all(dataflow(changes), "k", context)
    return [found[child]["spec"]["template"]["spec"]["securityContext"] for child in (Child.DRIVER, Child.EXECUTORS)]


def test_user_and_groups_can_be_left_to_the_cluster() -> None:
    """By the installation for all dataflows, or by a spec for one, a pod names no user; it is always required to be non-root."""
    ids = {"runAsUser", "runAsGroup", "fsGroup"}
    mine = {"spec.executor": {"pod": {"securityContext": {"runAsNonRoot": True}}}}
    driver, executor = security(mine)
    assert ids <= driver.keys()
    assert not ids & executor.keys()
    assert not any(ids & each.keys() for each in security({}, {}))
    for each in (*security(mine), *security({}, {}), *security({}, {"runAsNonRoot": False})):
        assert each["runAsNonRoot"] is True
        assert each["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security({"spec.driver": {"pod": {"securityContext": {"runAsUser": 7}}}})[0]["runAsUser"] == 7
    assert template("driver", securityContext={"runAsUser": 8})[0]["spec"]["securityContext"]["runAsUser"] == 8


@pytest.mark.parametrize(("given", "found"), [("", 3), ("null", 0), ("{}", 0), ('{"fsGroup": 5}', 1)])
def test_installation_sets_the_user_of_pods(given: str, found: int) -> None:
    """The operator takes it from its environment; null and an empty object leave everything to the cluster."""
    configuration = Configuration.from_environment({"BINSHIFT_POD_SECURITY_CONTEXT": given})
    assert len(configuration.render_context.pod_security_context) == found


def test_a_strange_security_context_is_named() -> None:
    """What is no object is refused with its variable."""
    with pytest.raises(InvalidConfiguration, match="BINSHIFT_POD_SECURITY_CONTEXT"):
        Configuration.from_environment({"BINSHIFT_POD_SECURITY_CONTEXT": "10001"})


@pytest.mark.parametrize(
    ("changes", "grace", "drain"),
    [
        ({}, 120, 100),
        ({"spec.executor": {"drainTimeout": "10m"}}, 620, 600),
        ({"spec.executor": {"drainTimeout": "1.5s"}}, 22, 2),
        ({"spec.executor": {"pod": {"template": {"spec": {"terminationGracePeriodSeconds": 300}}}}}, 300, 280),
        ({"spec.executor": {"pod": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}}, 21, 1),
    ],
)
def test_time_to_drain(changes: dict[str, Any], grace: int, drain: int) -> None:
    """A pod's grace is the drain's time and what the worker takes to end; the drain knows its part."""
    executor = pods(changes)[1]
    assert executor["spec"]["terminationGracePeriodSeconds"] == grace
    assert env(executor, "worker")["BINSHIFT_DRAIN_SECONDS"] == str(drain)


def test_a_driver_may_take_longer_to_stop() -> None:
    """A template's grace is the driver's, too, and the driver knows how long it has for its epoch."""
    driver = template("driver", terminationGracePeriodSeconds=600)[0]
    assert driver["spec"]["terminationGracePeriodSeconds"] == 600
    assert env(driver, "driver")["BINSHIFT_STOP_SECONDS"] == "580"


def test_an_autoscaler_may_remove_their_nodes() -> None:
    """All volumes on the node's disk can be lost with it, unless the user disagrees; those of claims are not listed."""
    for pod in pods():
        local = [each["name"] for each in pod["spec"]["volumes"] if "emptyDir" in each]
        assert pod["metadata"]["annotations"][EVICTABLE] == ",".join(local)
    claimed = pods(FULL)[1]["metadata"]["annotations"][EVICTABLE]
    assert claimed == "binshift-tmp"
    kept = pods({"spec.driver": {"pod": {"annotations": {EVICTABLE: "none"}}}})[0]
    assert kept["metadata"]["annotations"][EVICTABLE] == "none"


def test_pods_are_spread() -> None:
    """By default, executors are spread over zones and nodes if possible; the user's constraints replace this."""
    executor = pods()[1]
    constraints = executor["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in constraints] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert {each["whenUnsatisfiable"] for each in constraints} == {"ScheduleAnyway"}
    for each in constraints:
        assert each["labelSelector"]["matchLabels"].items() <= executor["metadata"]["labels"].items()
    mine = [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]
    given = pods({"spec.executor": {"pod": {"topologySpreadConstraints": mine}}})[1]
    assert given["spec"]["topologySpreadConstraints"] == mine
    assert template("executor", topologySpreadConstraints=mine)[1]["spec"]["topologySpreadConstraints"] == mine


def test_tmp_is_bounded() -> None:
    """What is forgotten in /tmp ends its own pod at last."""

    def limit(pod: dict[str, Any]) -> str:
        volume = next(each for each in pod["spec"]["volumes"] if each["name"] == "binshift-tmp")
        return str(volume["emptyDir"]["sizeLimit"])

    assert [limit(pod) for pod in pods()] == ["2Gi", "2Gi"]
    assert [limit(pod) for pod in pods(FULL)] == ["2Gi", "4Gi"]


@pytest.mark.parametrize(
    ("resources", "heap"),
    [
        ({"limits": {"memory": "512Mi"}}, DAEMON_HEAP_MIB),
        ({"limits": {"memory": "300Mi"}}, DAEMON_HEAP_MIB),
        ({"limits": {"memory": "1Gi"}}, 384),
        ({"requests": {"memory": "2Gi"}}, 896),
    ],
)
def test_memory_of_the_master(resources: dict[str, Any], heap: int) -> None:
    """The master's heap grows with its container."""
    driver = pods({"spec.driver": {"masterResources": resources}})[0]
    assert env(driver, "master")["SPARK_DAEMON_MEMORY"] == f"{heap}m"
    assert driver["spec"]["containers"][1]["resources"] == resources


def test_pods_have_the_version_of_the_operator() -> None:
    """A pod carries the version of the operator that rendered its template, which no user can replace."""
    given = pods({"spec.driver": {"pod": {"annotations": {ANNOTATION_VERSION: "x"}}}})
    assert {pod["metadata"]["annotations"][ANNOTATION_VERSION] for pod in given} == {"0.1.0"}


def test_a_template_is_merged_under() -> None:
    """A template's fields beyond binshift's own are in the pod; binshift's take precedence."""
    sidecar, init = {"name": "proxy", "image": "proxy:1"}, {"name": "init", "image": "init:1"}
    more = {"name": "worker", "envFrom": [{"secretRef": {"name": "a"}}], "env": [{"name": "A", "value": "1"}]}
    pod = template(
        "executor",
        initContainers=[init],
        containers=[sidecar, {**more, "imagePullPolicy": "Never"}],
        volumes=[{"name": "data", "emptyDir": {}}],
        runtimeClassName="gvisor",
        schedulerName="yunikorn",
        automountServiceAccountToken=True,
        serviceAccountName="clicks",
        tolerations=[{"key": "spot", "operator": "Exists"}],
        dnsConfig={"options": [{"name": "ndots", "value": "1"}]},
    )[1]
    plain = pods()[1]
    spec, usual = pod["spec"], {"securityContext": restricted.USUAL}
    assert (spec["runtimeClassName"], spec["schedulerName"]) == ("gvisor", "yunikorn")
    assert spec["initContainers"] == [init | usual]
    assert spec["automountServiceAccountToken"] is True
    assert spec["tolerations"] == [{"key": "spot", "operator": "Exists"}, *plain["spec"]["tolerations"]]
    worker, *others = spec["containers"]
    assert others == [sidecar | usual]
    assert worker["envFrom"] == [{"secretRef": {"name": "a"}}]
    assert worker["imagePullPolicy"] == "IfNotPresent"
    assert worker["env"] == [*plain["spec"]["containers"][0]["env"], {"name": "A", "value": "1"}]
    assert [each["name"] for each in spec["volumes"]] == [*(each["name"] for each in plain["spec"]["volumes"]), "data"]
    assert pod["metadata"] == plain["metadata"] | {"annotations": pod["metadata"]["annotations"]}


def test_a_template_takes_no_label_away() -> None:
    """Labels and annotations of a template are added, below the pod's own and binshift's."""
    given = {"labels": {"binshift.dev/dataflow-uid": "x", "team": "b", "tier": "c"}, "annotations": {"note": "d"}}
    pod = pods({"spec.driver": {"pod": {"labels": {"team": "a"}, "template": {"metadata": given}}}})[0]
    labels = pod["metadata"]["labels"]
    assert (labels["binshift.dev/dataflow-uid"], labels["team"], labels["tier"]) == ("uid-1", "a", "c")
    assert pod["metadata"]["annotations"]["note"] == "d"


LOOSE: list[tuple[dict[str, Any], str]] = [
    ({"runAsUser": 0}, "runAsUser: 0"),
    ({"runAsNonRoot": False}, "runAsNonRoot: false"),
    ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile: .*Unconfined"),
    ({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile: .*Unconfined"),
    ({"seLinuxOptions": {"user": "root"}}, "seLinuxOptions"),
    ({"capabilities": {"add": ["SYS_ADMIN"]}}, "capabilities: .*SYS_ADMIN"),
    ({"capabilities": {"drop": ["NET_RAW"]}}, "capabilities"),
    ({"procMount": "Unmasked"}, "procMount"),
    ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation: true"),
    ({"somethingNew": 1}, "somethingNew: 1"),
]
LOOSE_PODS: list[tuple[dict[str, Any], str]] = [
    ({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}, "sysctls: .*msgmax"),
    ({"windowsOptions": {"hostProcess": True}}, "windowsOptions"),
]


@pytest.mark.parametrize(("given", "why"), [*LOOSE[1:5], *LOOSE_PODS])
def test_what_a_security_context_may_not(given: dict[str, Any], why: str) -> None:
    """No field of the spec takes a pod out of the restricted standard, as no pod could be made then."""
    with pytest.raises(ValueError, match=rf"executor.pod.securityContext has {why}"):
        pods({"spec.executor": {"pod": {"securityContext": given}}})


def test_security_contexts_of_a_template() -> None:
    """What the restricted standard requires of a container is added where a template lacks it; what it allows is kept."""
    given = {
        "runAsUser": 5,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": None},
        "readOnlyRootFilesystem": None,
    }
    context = {"fsGroup": 3, "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}
    one, two = {"name": "s", "securityContext": given}, {"name": "i", "securityContext": None}
    spec = template("executor", containers=[one], initContainers=[two], securityContext=context)[1]["spec"]
    drop = {"drop": ["ALL"]}
    kept = {"runAsUser": 5, "capabilities": {"add": ["NET_BIND_SERVICE"], **drop}}
    assert spec["containers"][1]["securityContext"] == {"allowPrivilegeEscalation": False, **kept}
    assert spec["initContainers"][0]["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": drop}
    assert context.items() <= spec["securityContext"].items()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"hostNetwork": True}, "requests hostNetwork"),
        ({"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}, "volume x of kind hostPath"),
        ({"volumes": [{"name": "binshift-tmp", "emptyDir": {}}]}, "binshift- are taken"),
        ({"securityContext": {"runAsNonRoot": False}}, "runAsNonRoot: false"),
        ({"initContainers": [{"name": "i", "securityContext": {"privileged": True}}]}, "container i with privileged"),
        ({"containers": [{"name": "s", "ports": [{"hostPort": 80}]}]}, "container s with a hostPort"),
        ({"containers": [{"name": "driver", "command": ["sh"]}]}, "names command of container driver"),
        ({"initContainers": [{"name": "worker", "image": "x"}]}, "worker among its initContainers"),
        (
            {"containers": [{"name": "worker", "env": [{"name": "BINSHIFT_NEW", "value": "x"}]}]},
            "names BINSHIFT_NEW of",
        ),
        ({"containers": [{"name": "driver", "env": [{"name": "SPARK_CONF_DIR"}]}]}, "names SPARK_CONF_DIR of"),
        ({"volumes": [{"name": "x", "nfs": {"server": "a", "path": "/"}}]}, "volume x of kind nfs"),
        *(
            ({"containers": [{"name": "s", "securityContext": given}]}, f"container s with {why}")
            for given, why in LOOSE
        ),
        *(({"securityContext": given}, f"has {why}") for given, why in [*LOOSE[:5], *LOOSE_PODS]),
    ],
)
def test_what_a_template_may_not(spec: dict[str, Any], why: str) -> None:
    """What would take a pod out of the restricted standard, or a container out of binshift's hands, is refused and named."""
    with pytest.raises(ValueError, match=f"driver.pod.template .*{why}"):
        template("driver", **spec)


@pytest.mark.parametrize(
    "given",
    [
        "x",
        1,
        [],
        {"spec": []},
        {"spec": {"containers": "x", "volumes": [1, None], "securityContext": 7}},
        {"metadata": 1},
    ],
    ids=json.dumps,
)
def test_a_template_of_nonsense_breaks_nothing(given: Any) -> None:
    """A value that is not a template is left to the API server to reject; binshift's own part is rendered."""
    pod = pods({"spec.driver": {"pod": {"template": given}}})[0]
    assert [each["name"] for each in pod["spec"]["containers"] if isinstance(each, dict)][:2] == ["driver", "master"]
    assert pod["metadata"]["labels"]["binshift.dev/dataflow-uid"] == "uid-1"
