"""The pods: what runs in them, what they may do (as little as can be), where they may write (into emptyDirs), how they end.

They pass the Pod Security Standard `restricted`. The image's entry point is an init process; here are only its arguments. What a user
says of a pod beyond the fields of the spec is merged under all of this (`user_template`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binshift import __version__
from binshift_operator.children import environment, restricted
from binshift_operator.children.metadata import PORTS, Manifest, labels, selector
from binshift_operator.children.spark_conf import CLAIM_DIRECTORY, STATE_DIRECTORY, master_resources, resources
from binshift_operator.children.user_template import merge_template, spec_of
from binshift_operator.model import names
from binshift_operator.model.names import DRIVER, EXECUTOR, MASTER, WORKER, Child
from binshift_operator.model.specification import Dataflow

LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
LOST_NODE_SECONDS = 30
"""How long pods stay on a node that does not answer; Kubernetes' own default is 300."""
USER: Mapping[str, Any] = {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
"""Of pods for which neither the dataflow nor the operator's installation names another; the image runs as any."""
TMP_SIZE = "2Gi"
"""Of /tmp, unless it is said: what a program forgets there ends its own pod, and not its node's other ones."""
EVICTABLE = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
"""The checkpoint has everything: an autoscaler need not keep a node for the volumes of a pod."""
SPREAD_OVER = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
MASTER_STATE = "binshift-master"
TEMPORARY = "binshift-tmp"
STATE = "binshift-state"
CONF = "binshift-conf"
CLAIM = "binshift-checkpoint"


def driver_pod(dataflow: Dataflow, keys_hash: str, security: Mapping[str, Any] = USER) -> Manifest:
    """The template of the driver's pod: the program, and Spark's master."""
    program = dataflow.raw["application"]
    arguments = ["python", "-m", "binshift.hosting.pod.driver", program["mainFile"], *(program.get("args") or [])]
    driver = {
        **_container(dataflow, DRIVER, arguments, STATE),
        "env": environment.driver_env(dataflow),
        "resources": resources(dataflow, DRIVER),
        "ports": [
            _port("control", PORTS.control),
            _port("health", PORTS.health),
            _port("driver-rpc", PORTS.driver),
            _port("driver-blocks", PORTS.driver_blocks),
        ],
        "startupProbe": _http("/healthz", period=2, failures=90),
        "livenessProbe": _http("/healthz", period=10, failures=12),
        "readinessProbe": _http("/readyz", period=5, failures=3),
    }
    master = {
        **_container(dataflow, MASTER, ["python", "-m", "binshift.hosting.pod.master"], MASTER_STATE, with_user=False),
        "env": environment.master_env(dataflow),
        "resources": master_resources(dataflow),
        "ports": [_port("master", PORTS.master)],
        "startupProbe": _tcp(PORTS.master, period=2, failures=90),
        "livenessProbe": _tcp(PORTS.master, period=10, failures=6),
    }
    volumes = [{"name": STATE, "emptyDir": {}}, {"name": MASTER_STATE, "emptyDir": {}}]
    return _template(dataflow, DRIVER, keys_hash, [driver, master], volumes, security)


def executor_pod(dataflow: Dataflow, keys_hash: str, security: Mapping[str, Any] = USER) -> Manifest:
    """The template of an executor's pod: Spark's worker, which starts the executor."""
    worker = {
        **_container(dataflow, WORKER, ["python", "-m", "binshift.hosting.pod.worker"], STATE, component=EXECUTOR),
        "env": environment.worker_env(dataflow),
        "resources": resources(dataflow, EXECUTOR),
        "ports": [_port("worker", PORTS.worker), _port("executor-blocks", PORTS.executor_blocks)],
        "startupProbe": _tcp(PORTS.worker, period=2, failures=90),
        # The worker's port is open before there is an executor, and bins are in executors.
        "readinessProbe": _tcp(PORTS.executor_blocks, period=5, failures=3),
        "livenessProbe": _tcp(PORTS.worker, period=10, failures=6),
        "lifecycle": {"preStop": {"exec": {"command": ["python", "-m", "binshift.hosting.pod.drain"]}}},
    }
    return _template(dataflow, EXECUTOR, keys_hash, [worker], [_store(dataflow)], security)


def _store(dataflow: Dataflow) -> Manifest:
    """The volume of the local store: a cache, so it comes and goes with its pod."""
    storage = (dataflow.raw.get("executor") or {}).get("storage") or {}
    claim = storage.get("volumeClaimTemplate")
    if claim:
        return {"name": STATE, "ephemeral": {"volumeClaimTemplate": {"spec": claim["spec"]}}}
    limit = storage.get("sizeLimit")
    return {"name": STATE, "emptyDir": {} if limit is None else {"sizeLimit": str(limit)}}


def _container(
    dataflow: Dataflow, name: str, arguments: list[str], state: str, *, component: str = DRIVER, with_user: bool = True
) -> Manifest:
    user = (dataflow.raw.get(component) or {}).get("pod") or {}
    mounts = [
        {"name": CONF, "mountPath": environment.CONF_DIRECTORY, "readOnly": True},
        {"name": state, "mountPath": STATE_DIRECTORY},
        {"name": TEMPORARY, "mountPath": "/tmp", "subPath": name},
    ]
    if with_user and dataflow.checkpoint.claim is not None:
        mounts.append({"name": CLAIM, "mountPath": CLAIM_DIRECTORY})
    sources = environment.env_from(dataflow) if with_user else []
    return {
        "name": name,
        "image": dataflow.raw["image"],
        "imagePullPolicy": dataflow.raw.get("imagePullPolicy", "IfNotPresent"),
        "args": arguments,
        **({"envFrom": sources} if sources else {}),
        "volumeMounts": mounts + (list(user.get("volumeMounts") or []) if with_user else []),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _template(
    dataflow: Dataflow,
    component: str,
    keys_hash: str,
    containers: list[Manifest],
    volumes: list[Manifest],
    security: Mapping[str, Any],
) -> Manifest:
    user = (dataflow.raw.get(component) or {}).get("pod") or {}
    volumes = [
        *volumes,
        {"name": TEMPORARY, "emptyDir": {"sizeLimit": str(user.get("tmpSizeLimit") or TMP_SIZE)}},
        {"name": CONF, "configMap": {"name": dataflow.key.child(Child.SPARK_CONF)}},
    ]
    if dataflow.checkpoint.claim is not None:
        volumes.append({"name": CLAIM, "persistentVolumeClaim": {"claimName": dataflow.checkpoint.claim}})
    local = ",".join(each["name"] for each in volumes if "emptyDir" in each)
    chosen = ("nodeSelector", "affinity", "topologySpreadConstraints", "priorityClassName")
    secrets = dataflow.raw.get("imagePullSecrets")
    ours = {
        "metadata": _metadata(dataflow, component, keys_hash, local),
        "spec": {
            "serviceAccountName": dataflow.service_account or dataflow.key.child(Child.SERVICE_ACCOUNT),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": environment.grace_seconds(dataflow, component),
            "securityContext": _identity(dataflow, component, security),
            "topologySpreadConstraints": _spread(dataflow, component),
            "containers": containers,
            "volumes": volumes + list(user.get("volumes") or []),
            **({"imagePullSecrets": secrets} if secrets else {}),
            **{name: user[name] for name in chosen if user.get(name)},
            "tolerations": _tolerations(user.get("tolerations") or spec_of(dataflow, component).get("tolerations")),
        },
    }
    return merge_template(dataflow, component, ours)


def _tolerations(found: Any) -> list[Manifest]:
    """Those given, and how long a lost node is tolerated where they do not say so."""
    given: list[Manifest] = list(found) if isinstance(found, list) else []
    said = {
        each.get("key") for each in given if isinstance(each, Mapping) and each.get("effect") in (None, "", "NoExecute")
    }
    return given + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
        for key in LOST_NODE_TAINTS
        if not said & {key, None, ""}
    ]


def _metadata(dataflow: Dataflow, component: str, keys_hash: str, local: str) -> Manifest:
    user = (dataflow.raw.get(component) or {}).get("pod") or {}
    return {
        "labels": {**(user.get("labels") or {}), **labels(dataflow.key, component)},
        "annotations": {
            EVICTABLE: local,
            **(user.get("annotations") or {}),
            names.ANNOTATION_VERSION: __version__,
            names.ANNOTATION_SPEC: dataflow.pod_hash,
            names.ANNOTATION_KEYS: keys_hash,
        },
    }


def _spread(dataflow: Dataflow, component: str) -> list[Manifest]:
    """Over zones and nodes as far as that goes: a node that is lost takes as few executors as can be."""
    how = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    chosen = {"labelSelector": {"matchLabels": selector(dataflow.key, component)}}
    return [{**how, "topologyKey": each, **chosen} for each in SPREAD_OVER]


def _identity(dataflow: Dataflow, component: str, default: Mapping[str, Any]) -> Manifest:
    """User and groups of the pod: those of the spec, else of its template, else of the installation."""
    context = ((dataflow.raw.get(component) or {}).get("pod") or {}).get("securityContext")
    for each in restricted.broken(context):
        raise ValueError(
            f"{component}.pod.securityContext has {each}: the Pod Security Standard restricted does not allow it"
        )
    return _security(context or spec_of(dataflow, component).get("securityContext") or default)


def _security(said: Mapping[str, Any]) -> Manifest:
    """User and groups as said; what is not, is the cluster's choice."""
    usual = {"fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}}
    return {**usual, **(said if isinstance(said, Mapping) else {}), "runAsNonRoot": True}


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _http(path: str, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _tcp(port: int, period: int, failures: int) -> Manifest:
    return {"tcpSocket": {"port": port}, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures}
