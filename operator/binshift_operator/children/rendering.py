"""All children of a dataflow but its Secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binshift_operator.children.metadata import PORTS, Manifest, child, selector
from binshift_operator.children.pods import driver_pod, executor_pod
from binshift_operator.children.spark_conf import conf, defaults_file
from binshift_operator.model.names import DRIVER, EXECUTOR, LABEL_COMPONENT, LABEL_NAME, Child, Key
from binshift_operator.model.specification import Dataflow

NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What rendering has to know of the operator: where its pods are, who may call the control API."""

    namespace: str = "binshift"
    app: str = "binshift"


def rendered(dataflow: Dataflow, keys_hash: str | None, around: Surroundings) -> Mapping[Child, Manifest]:
    """The manifests by child; without the Secret's fingerprint there are no StatefulSets yet."""
    key = dataflow.key
    plain = {
        Child.SERVICE_ACCOUNT: child(
            "v1", "ServiceAccount", key.child(Child.SERVICE_ACCOUNT), key, automountServiceAccountToken=False
        ),
        Child.SPARK_CONF: child(
            "v1",
            "ConfigMap",
            key.child(Child.SPARK_CONF),
            key,
            data={"spark-defaults.conf": defaults_file(conf(dataflow))},
        ),
        Child.NETWORK_POLICY: _network_policy(key, around),
        Child.DRIVER_SERVICE: _service(key, DRIVER),
        Child.EXECUTOR_SERVICE: _service(key, EXECUTOR),
        Child.DISRUPTION_BUDGET: child(
            "policy/v1",
            "PodDisruptionBudget",
            key.child(Child.DISRUPTION_BUDGET),
            key,
            EXECUTOR,
            spec={"maxUnavailable": 1, "selector": {"matchLabels": selector(key, EXECUTOR)}},
        ),
    }
    if keys_hash is None:
        return plain
    return {
        **plain,
        Child.EXECUTORS: _stateful(key, EXECUTOR, executor_pod(dataflow, keys_hash)),
        Child.DRIVER: _stateful(key, DRIVER, driver_pod(dataflow, keys_hash)),
    }


def with_replicas(manifest: Manifest, replicas: int) -> Manifest:
    """A StatefulSet that asks for so many pods. Always said: what is not said in an apply is given up."""
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}


def _stateful(key: Key, component: str, template: Manifest) -> Manifest:
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


def _service(key: Key, component: str) -> Manifest:
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


def _network_policy(key: Key, around: Surroundings) -> Manifest:
    """Who may call in: the dataflow's own pods everywhere (Spark takes ports as they are free), the operator the control API,
    anybody health and metrics.

    What the pods call out to is the program's business, and not limited.
    """
    own = {"podSelector": {"matchLabels": {"binshift.dev/dataflow-uid": key.uid}}}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: around.namespace}},
        "podSelector": {"matchLabels": {LABEL_NAME: around.app, LABEL_COMPONENT: "operator"}},
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
