"""The pod templates: their containers, rights (as few as possible), writable volumes (emptyDirs), and how the pods end.

They pass the Pod Security Standard `restricted`. The image's entry point is an init process, so only its arguments are set. The user's
pod template is merged into the result (`user_template`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binshift import __version__
from binshift.encryption import AUTHORITY, CERTIFICATE, KEY, SECRET_ANNOTATION
from binshift_operator.children import environment, restricted
from binshift_operator.children.metadata import PORTS, Manifest, labels, selector
from binshift_operator.children.probes import http, one_worker, port, tcp, two_workers
from binshift_operator.children.spark_conf import STATE_DIRECTORY, master_resources
from binshift_operator.children.user_template import merge_template, spec_of
from binshift_operator.model import names
from binshift_operator.model.drivers import has_standby
from binshift_operator.model.executor_class import dataflow_hash
from binshift_operator.model.locations import CLAIM_DIRECTORY
from binshift_operator.model.names import DRIVER, EXECUTOR, MASTER, WORKER, Child
from binshift_operator.model.resources import resources
from binshift_operator.model.specification import Dataflow

LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
LOST_NODE_SECONDS = 30
"""How long pods stay on an unreachable node; the default of Kubernetes is 300."""
USER: Mapping[str, Any] = {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
"""For pods for which neither the dataflow nor the chart names another one; the image runs as any user."""
TMP_SIZE = "2Gi"
"""The default of /tmp: a program that fills it ends its own pod, and no other pod of the node."""
EVICTABLE = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
"""The checkpoint has all state: an autoscaler can remove a node in spite of the local volumes of its pods."""
SPREAD_OVER = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
MASTER_STATE = "binshift-master"
TEMPORARY = "binshift-tmp"
STATE = "binshift-state"
CONF = "binshift-conf"
CLAIM = "binshift-checkpoint"
TLS = "binshift-tls"


def driver_pod(dataflow: Dataflow, keys_hash: str, security: Mapping[str, Any] = USER) -> Manifest:
    """The template of the driver's pod: the program, and Spark's master."""
    program, scheme = dataflow.raw["application"], {"scheme": "HTTPS"} if dataflow.tls_secret else {}
    arguments = ["python", "-m", "binshift.hosting.pod.driver", program["mainFile"], *(program.get("args") or [])]
    driver = {
        **_container(dataflow, DRIVER, arguments, STATE),
        "env": environment.driver_env(dataflow),
        "resources": resources(dataflow, DRIVER),
        "ports": [
            port("control", PORTS.control),
            port("health", PORTS.health),
            port("driver-rpc", PORTS.driver),
            port("driver-blocks", PORTS.driver_blocks),
            *([port("active", PORTS.active)] if has_standby(dataflow) else []),
        ],
        "startupProbe": http("/healthz", period=2, failures=90, **scheme),
        "livenessProbe": http("/healthz", period=10, failures=12, **scheme),
        "readinessProbe": http("/readyz", period=5, failures=3, **scheme),
    }
    master = {
        **_container(dataflow, MASTER, ["python", "-m", "binshift.hosting.pod.master"], MASTER_STATE, with_user=False),
        "env": environment.master_env(dataflow),
        "resources": master_resources(dataflow),
        "ports": [port("master", PORTS.master)],
        "startupProbe": tcp(PORTS.master, period=2, failures=90),
        "livenessProbe": tcp(PORTS.master, period=10, failures=6),
    }
    volumes = [{"name": STATE, "emptyDir": {}}, {"name": MASTER_STATE, "emptyDir": {}}]
    return _template(dataflow, DRIVER, keys_hash, [driver, master], volumes, security)


def executor_pod(dataflow: Dataflow, keys_hash: str, security: Mapping[str, Any] = USER) -> Manifest:
    """The template of an executor's pod: Spark's worker, which starts the executor."""
    worker = {
        **_container(dataflow, WORKER, ["python", "-m", "binshift.hosting.pod.worker"], STATE, component=EXECUTOR),
        "env": environment.worker_env(dataflow),
        "resources": resources(dataflow, EXECUTOR),
        **(two_workers() if has_standby(dataflow) else one_worker()),
        "lifecycle": {"preStop": {"exec": {"command": ["python", "-m", "binshift.hosting.pod.drain"]}}},
    }
    return _template(dataflow, EXECUTOR, keys_hash, [worker], [_store(dataflow)], security)


def _store(dataflow: Dataflow) -> Manifest:
    """The volume of the local store: a cache, so it has the lifetime of its pod."""
    storage = dataflow.section("executor", "storage")
    claim = storage.get("volumeClaimTemplate")
    if claim:
        return {"name": STATE, "ephemeral": {"volumeClaimTemplate": {"spec": claim["spec"]}}}
    limit = storage.get("sizeLimit")
    return {"name": STATE, "emptyDir": {} if limit is None else {"sizeLimit": str(limit)}}


def _container(
    dataflow: Dataflow, name: str, arguments: list[str], state: str, *, component: str = DRIVER, with_user: bool = True
) -> Manifest:
    user = dataflow.section(component, "pod")
    mounts = [
        {"name": CONF, "mountPath": environment.CONF_DIRECTORY, "readOnly": True},
        {"name": state, "mountPath": STATE_DIRECTORY},
        {"name": TEMPORARY, "mountPath": "/tmp", "subPath": name},
    ]
    if with_user and dataflow.tls_secret:
        mounts.append({"name": TLS, "mountPath": environment.TLS_DIRECTORY, "readOnly": True})
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
    user = dataflow.section(component, "pod")
    volumes = [
        *volumes,
        {"name": TEMPORARY, "emptyDir": {"sizeLimit": str(user.get("tmpSizeLimit") or TMP_SIZE)}},
        {"name": CONF, "configMap": {"name": dataflow.key.child(Child.SPARK_CONF)}},
        *_certificate(dataflow, component),
    ]
    if dataflow.checkpoint.claim is not None:
        volumes.append({"name": CLAIM, "persistentVolumeClaim": {"claimName": dataflow.checkpoint.claim}})
    local = ",".join(each["name"] for each in volumes if "emptyDir" in each)
    chosen = ("nodeSelector", "affinity", "topologySpreadConstraints", "priorityClassName")
    secrets = dataflow.raw.get("imagePullSecrets")
    aliases = environment.control_aliases(dataflow) if component == EXECUTOR else []
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
            **({"hostAliases": aliases} if aliases else {}),
            **{name: user[name] for name in chosen if user.get(name)},
            "tolerations": _tolerations(user.get("tolerations") or spec_of(dataflow, component).get("tolerations")),
        },
    }
    return merge_template(dataflow, component, ours)


def _certificate(dataflow: Dataflow, component: str) -> list[Manifest]:
    """The driver's certificate; its key is in no other pod."""
    if not dataflow.tls_secret:
        return []
    files = (CERTIFICATE, KEY) if component == DRIVER else (AUTHORITY,)
    items = [{"key": each, "path": each} for each in files]
    return [{"name": TLS, "secret": {"secretName": dataflow.tls_secret, "items": items}}]


def _tolerations(found: Any) -> list[Manifest]:
    """The given ones, and those for a lost node unless the given ones include these."""
    given: list[Manifest] = list(found) if isinstance(found, list) else []
    evicting = (each for each in given if isinstance(each, Mapping) and each.get("effect") in (None, "", "NoExecute"))
    tolerated = {each.get("key") for each in evicting}
    return given + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
        for key in LOST_NODE_TAINTS
        if not tolerated & {key, None, ""}
    ]


def _metadata(dataflow: Dataflow, component: str, keys_hash: str, local: str) -> Manifest:
    user = dataflow.section(component, "pod")
    return {
        "labels": {**(user.get("labels") or {}), **labels(dataflow.key, component)},
        "annotations": {
            EVICTABLE: local,
            **(user.get("annotations") or {}),
            names.ANNOTATION_VERSION: __version__,
            names.ANNOTATION_SPEC: dataflow.pod_hash,
            names.ANNOTATION_DATAFLOW: dataflow_hash(dataflow),
            names.ANNOTATION_KEYS: keys_hash,
            **({SECRET_ANNOTATION: dataflow.tls_secret} if dataflow.tls_secret and component == DRIVER else {}),
        },
    }


def _spread(dataflow: Dataflow, component: str) -> list[Manifest]:
    """Over zones and nodes if possible, so that a lost node has few executors."""
    how = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    chosen = {"labelSelector": {"matchLabels": selector(dataflow.key, component)}}
    return [{**how, "topologyKey": each, **chosen} for each in SPREAD_OVER]


def _identity(dataflow: Dataflow, component: str, default: Mapping[str, Any]) -> Manifest:
    """User and groups of the pod: from the spec, its template, or the chart, in this order."""
    context = dataflow.section(component, "pod").get("securityContext")
    for each in restricted.violations(context):
        raise ValueError(
            f"{component}.pod.securityContext has {each}: the Pod Security Standard restricted does not allow it"
        )
    given = context or spec_of(dataflow, component).get("securityContext") or default
    usual = {"fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}}
    return {**usual, **(given if isinstance(given, Mapping) else {}), "runAsNonRoot": True}
