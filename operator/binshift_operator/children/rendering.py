"""Renders all children of a dataflow except its Secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from binshift.errors import BinshiftError
from binshift_operator.children.metadata import PORTS, Manifest, child, selector
from binshift_operator.children.pods import USER, driver_pod, executor_pod
from binshift_operator.children.spark_conf import format_properties, spark_conf
from binshift_operator.model.drivers import has_standby
from binshift_operator.model.names import DRIVER, EXECUTOR, LABEL_COMPONENT, LABEL_NAME, Child, DataflowKey
from binshift_operator.model.specification import Dataflow

NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class RenderContext:
    """What rendering depends on besides the spec.

    Attributes:
        namespace: of the operator's pods, which are allowed to call the control API.
        app: the label ``app.kubernetes.io/name`` of those pods.
        pod_security_context: user and groups of pods whose dataflow names none; empty: the cluster assigns them.
    """

    namespace: str = "binshift"
    app: str = "binshift"
    pod_security_context: Mapping[str, Any] = field(default_factory=lambda: dict(USER))


def render(
    dataflow: Dataflow, keys_hash: str | None, context: RenderContext
) -> tuple[Mapping[Child, Manifest], Mapping[Child, Exception]]:
    """The manifests that can be rendered, and the errors of the others; without the Secret's fingerprint there are no StatefulSets."""
    found: dict[Child, Manifest] = {}
    errors: dict[Child, Exception] = {}
    for each, make in _recipes(dataflow, keys_hash, context).items():
        try:
            found[each] = make()
        except (BinshiftError, ValueError) as error:
            errors[each] = error
    return found, errors


def left_alone(dataflow: Dataflow) -> tuple[Child, ...]:
    """The children that are not applied: the user's own ServiceAccount, and the conf while the location of its snapshot is unknown."""
    account = (Child.SERVICE_ACCOUNT,) if dataflow.service_account is not None else ()
    unknown = dataflow.restore_from is not None and not dataflow.restore_from.location
    return (*account, *((Child.SPARK_CONF,) if unknown else ()), *unused(dataflow))


def unused(dataflow: Dataflow) -> tuple[Child, ...]:
    """The children that the spec does not need, and that are not even read; one that is left from an earlier spec is harmless."""
    return () if has_standby(dataflow) else (Child.DRIVER_DISRUPTION_BUDGET,)


def _recipes(
    dataflow: Dataflow, keys_hash: str | None, context: RenderContext
) -> Mapping[Child, Callable[[], Manifest]]:
    key = dataflow.key
    plain: dict[Child, Callable[[], Manifest]] = {
        Child.SERVICE_ACCOUNT: lambda: child(
            "v1", "ServiceAccount", key.child(Child.SERVICE_ACCOUNT), key, automountServiceAccountToken=False
        ),
        Child.SPARK_CONF: lambda: child(
            "v1",
            "ConfigMap",
            key.child(Child.SPARK_CONF),
            key,
            data={"spark-defaults.conf": format_properties(spark_conf(dataflow))},
        ),
        Child.NETWORK_POLICY: lambda: _network_policy(key, context),
        Child.DRIVER_SERVICE: lambda: _service(key, DRIVER),
        Child.EXECUTOR_SERVICE: lambda: _service(key, EXECUTOR),
        Child.DISRUPTION_BUDGET: lambda: _disruption_budget(key),
        Child.DRIVER_DISRUPTION_BUDGET: lambda: _driver_disruption_budget(key),
    }
    for each in left_alone(dataflow):
        del plain[each]
    if keys_hash is None:
        return plain
    return {
        **plain,
        Child.EXECUTORS: lambda: _stateful(
            key, EXECUTOR, executor_pod(dataflow, keys_hash, context.pod_security_context)
        ),
        Child.DRIVER: lambda: _stateful(key, DRIVER, driver_pod(dataflow, keys_hash, context.pod_security_context)),
    }


def _disruption_budget(key: DataflowKey) -> Manifest:
    """One ready executor can be evicted at a time; others can always be.

    Executors are ready only while a program runs. Without AlwaysAllow, the node of a program that fails could never be drained. The maximum
    of unavailable executors is decided (`with_unavailable`): executors that cannot be scheduled do not count.
    """
    spec = {"unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": selector(key, EXECUTOR)}}
    return child("policy/v1", "PodDisruptionBudget", key.child(Child.DISRUPTION_BUDGET), key, EXECUTOR, spec=spec)


def _driver_disruption_budget(key: DataflowKey) -> Manifest:
    """One driver can be evicted while the other one is ready: as the active one, or as a standby that waits."""
    chosen = {"unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": selector(key, DRIVER)}}
    name = key.child(Child.DRIVER_DISRUPTION_BUDGET)
    return child("policy/v1", "PodDisruptionBudget", name, key, DRIVER, spec={**chosen, "maxUnavailable": 1})


def with_replicas(manifest: Manifest, replicas: int) -> Manifest:
    """A StatefulSet with a number of replicas. Each apply has it: fields that an apply omits are given up."""
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}


def with_unavailable(manifest: Manifest, most: int) -> Manifest:
    """A disruption budget with a maximum of unavailable executors."""
    return {**manifest, "spec": {**manifest["spec"], "maxUnavailable": most}}


def _stateful(key: DataflowKey, component: str, template: Manifest) -> Manifest:
    name = key.driver if component == DRIVER else key.executor
    return child(
        "apps/v1",
        "StatefulSet",
        name,
        key,
        component,
        spec={
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector(key, component)},
            "template": template,
        },
    )


def _service(key: DataflowKey, component: str) -> Manifest:
    name = key.driver if component == DRIVER else key.executor
    ports = (
        {"control": PORTS.control, "health": PORTS.health, "driver-rpc": PORTS.driver, "master": PORTS.master}
        if component == DRIVER
        else {"worker": PORTS.worker}
    )
    return child(
        "v1",
        "Service",
        name,
        key,
        component,
        spec={
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(key, component),
            "ports": [{"name": n, "port": p, "targetPort": p, "protocol": "TCP"} for n, p in ports.items()],
        },
    )


def _network_policy(key: DataflowKey, context: RenderContext) -> Manifest:
    """Ingress: the dataflow's own pods on all ports (Spark uses any free ones), the operator to the control API, and all
    clients to health and metrics. Egress depends on the program, and is not limited.
    """
    own = {"podSelector": {"matchLabels": {"binshift.dev/dataflow-uid": key.uid}}}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: context.namespace}},
        "podSelector": {"matchLabels": {LABEL_NAME: context.app, LABEL_COMPONENT: "operator"}},
    }
    return child(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        key.child(Child.NETWORK_POLICY),
        key,
        spec={
            "podSelector": {"matchLabels": {"binshift.dev/dataflow-uid": key.uid}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [own]},
                {"from": [operator], "ports": [{"protocol": "TCP", "port": PORTS.control}]},
                {"ports": [{"protocol": "TCP", "port": PORTS.health}]},
            ],
        },
    )
