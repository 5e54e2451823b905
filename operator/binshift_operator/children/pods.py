"""The pods: what runs in them, what they may do (as little as can be), where they may write (into emptyDirs), how they end.

They pass the Pod Security Standard `restricted`. The image's entry point is an init process; here are only its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binshift_operator.children import environment
from binshift_operator.children.metadata import PORTS, Manifest, labels
from binshift_operator.children.spark_conf import CLAIM_DIRECTORY, STATE_DIRECTORY, resources
from binshift_operator.model import names
from binshift_operator.model.names import DRIVER, EXECUTOR, MASTER, WORKER, Child
from binshift_operator.model.specification import Dataflow

USER = 10001
GRACE_SECONDS = 120
"""For a driver to finish its epoch, and for an executor to be drained."""
MASTER_RESOURCES: Mapping[str, Any] = {
    "requests": {"cpu": "50m", "memory": "384Mi"},
    "limits": {"memory": "512Mi"},
}
MASTER_STATE = "binshift-master"
TEMPORARY = "binshift-tmp"
STATE = "binshift-state"
CONF = "binshift-conf"
CLAIM = "binshift-checkpoint"


def driver_pod(dataflow: Dataflow, keys_hash: str) -> Manifest:
    """The template of the driver's pod: the program, and Spark's master."""
    program = dataflow.raw["application"]
    arguments = ["python", "-m", "binshift.pods.driver", program["mainFile"], *(program.get("args") or [])]
    driver = {
        **_container(dataflow, DRIVER, arguments, STATE),
        "env": environment.driver(dataflow),
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
        **_container(dataflow, MASTER, ["python", "-m", "binshift.pods.master"], MASTER_STATE, with_user=False),
        "env": environment.master(dataflow),
        "resources": MASTER_RESOURCES,
        "ports": [_port("master", PORTS.master)],
        "startupProbe": _tcp(PORTS.master, period=2, failures=90),
        "livenessProbe": _tcp(PORTS.master, period=10, failures=6),
    }
    volumes = [{"name": STATE, "emptyDir": {}}, {"name": MASTER_STATE, "emptyDir": {}}]
    return _template(dataflow, DRIVER, keys_hash, [driver, master], volumes)


def executor_pod(dataflow: Dataflow, keys_hash: str) -> Manifest:
    """The template of an executor's pod: Spark's worker, which starts the executor."""
    worker = {
        **_container(dataflow, WORKER, ["python", "-m", "binshift.pods.worker"], STATE, component=EXECUTOR),
        "env": environment.worker(dataflow),
        "resources": resources(dataflow, EXECUTOR),
        "ports": [_port("worker", PORTS.worker), _port("executor-blocks", PORTS.executor_blocks)],
        "startupProbe": _tcp(PORTS.worker, period=2, failures=90),
        # The worker's port is open before there is an executor, and bins are in executors.
        "readinessProbe": _tcp(PORTS.executor_blocks, period=5, failures=3),
        "livenessProbe": _tcp(PORTS.worker, period=10, failures=6),
        "lifecycle": {"preStop": {"exec": {"command": ["python", "-m", "binshift.pods.drain"]}}},
    }
    return _template(dataflow, EXECUTOR, keys_hash, [worker], [_store(dataflow)])


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
    sources = environment.sources(dataflow) if with_user else []
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
    dataflow: Dataflow, component: str, keys_hash: str, containers: list[Manifest], volumes: list[Manifest]
) -> Manifest:
    user = (dataflow.raw.get(component) or {}).get("pod") or {}
    volumes = [
        *volumes,
        {"name": TEMPORARY, "emptyDir": {}},
        {"name": CONF, "configMap": {"name": dataflow.key.child(Child.SPARK_CONF)}},
    ]
    if dataflow.checkpoint.claim is not None:
        volumes.append({"name": CLAIM, "persistentVolumeClaim": {"claimName": dataflow.checkpoint.claim}})
    chosen = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName")
    secrets = dataflow.raw.get("imagePullSecrets")
    return {
        "metadata": {
            "labels": {**(user.get("labels") or {}), **labels(dataflow.key, component)},
            "annotations": {
                **(user.get("annotations") or {}),
                names.ANNOTATION_SPEC: dataflow.restart_hash,
                names.ANNOTATION_KEYS: keys_hash,
            },
        },
        "spec": {
            "serviceAccountName": dataflow.key.child(Child.SERVICE_ACCOUNT),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": _security(),
            "containers": containers,
            "volumes": volumes + list(user.get("volumes") or []),
            **({"imagePullSecrets": secrets} if secrets else {}),
            **{name: user[name] for name in chosen if user.get(name)},
        },
    }


def _security() -> Manifest:
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


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
