"""The environment variables of the three kinds of containers; the module of each that reads them has a table.

The application's variables override binshift's, and those of the pod override both. The CRD rejects names that only binshift sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from binshift.encryption import AUTHORITY, AUTHORITY_VARIABLE, TLS_VARIABLE
from binshift_operator.children.metadata import PORTS
from binshift_operator.children.spark_conf import (
    STATE_DIRECTORY,
    executor_memory,
    master_memory,
    task_slots,
)
from binshift_operator.children.user_template import spec_of
from binshift_operator.model import names
from binshift_operator.model.drivers import driver_count, has_standby
from binshift_operator.model.locations import checkpoint_directory
from binshift_operator.model.names import Child, DataflowKey
from binshift_operator.model.quantities import duration
from binshift_operator.model.specification import Dataflow

Variable: TypeAlias = Mapping[str, Any]
CONF_DIRECTORY = "/etc/binshift/spark"
TLS_DIRECTORY = "/etc/binshift/tls"
LOOPBACK = "127.0.0.1"
GRACE_SECONDS = 120
"""The default for an executor to be drained."""
DRIVER_GRACE_SECONDS = 60
"""The default for a driver to finish its epoch; if the driver's node is lost meanwhile, the stream waits for this time."""
ENDING_SECONDS = 20
"""The part of these that is reserved for the processes to end."""


def driver_env(dataflow: Dataflow) -> list[Variable]:
    """Of the container that runs the program."""
    key = dataflow.key
    ours = {
        **_common(key, key.driver),
        "BINSHIFT_MASTER": f"spark://$(BINSHIFT_POD).{key.driver}:{PORTS.master}"
        if has_standby(dataflow)
        else f"spark://{key.driver_host}:{PORTS.master}",
        "BINSHIFT_CONTROL_PORT": str(PORTS.control),
        "BINSHIFT_HEALTH_PORT": str(PORTS.health),
        "BINSHIFT_TOKEN": _secret(key, names.CONTROL_TOKEN),
        "BINSHIFT_DRAIN_TOKEN": _secret(key, names.DRAIN_TOKEN),
        "BINSHIFT_CHECKPOINT": checkpoint_directory(dataflow),
        "BINSHIFT_OWNER": key.uid,
        "BINSHIFT_STOP_SECONDS": str(grace_seconds(dataflow, "driver") - ENDING_SECONDS),
        **_hosts(dataflow),
        **({"BINSHIFT_SPARK_UI": "true"} if dataflow.section("driver").get("sparkUI") else {}),
        **({TLS_VARIABLE: TLS_DIRECTORY} if dataflow.tls_secret else {}),
    }
    return _variables(ours, _given(dataflow, "application"), _given(dataflow, "driver"))


def master_env(dataflow: Dataflow) -> list[Variable]:
    """Of the container that runs Spark's master; without the user's variables."""
    common = _common(dataflow.key, dataflow.key.driver)
    return _variables({**common, **_hosts(dataflow), "SPARK_DAEMON_MEMORY": master_memory(dataflow)})


def worker_env(dataflow: Dataflow) -> list[Variable]:
    """Of the container that runs Spark's worker, and so of the executor in it."""
    key = dataflow.key
    ours = {
        **_common(key, key.executor),
        **_masters(dataflow),
        **_control_url(dataflow),
        "BINSHIFT_DRAIN_TOKEN": _secret(key, names.DRAIN_TOKEN),
        "BINSHIFT_DRAIN_SECONDS": str(grace_seconds(dataflow, "executor") - ENDING_SECONDS),
        "BINSHIFT_EXECUTOR_MEMORY": executor_memory(dataflow),
        "BINSHIFT_EXECUTOR_CORES": str(task_slots(dataflow)),
        "BINSHIFT_STORE_DIR": f"{STATE_DIRECTORY}/store",
        "SPARK_LOCAL_DIRS": f"{STATE_DIRECTORY}/spark",
    }
    return _variables(ours, _given(dataflow, "application"), _given(dataflow, "executor"))


def _hosts(dataflow: Dataflow) -> Mapping[str, str]:
    """The names of both drivers, if one is a standby."""
    names = dataflow.key.driver_hosts(driver_count(dataflow))
    return {"BINSHIFT_DRIVER_HOSTS": ",".join(names)} if has_standby(dataflow) else {}


def _masters(dataflow: Dataflow) -> Mapping[str, str]:
    """Where an executor's pod finds Spark's master: with a standby driver, each driver has one, and a worker in the pod."""
    return _hosts(dataflow) or {"BINSHIFT_MASTER": f"spark://{dataflow.key.driver_host}:{PORTS.master}"}


def _control_url(dataflow: Dataflow) -> Mapping[str, str]:
    """By what an executor calls the control API. A certificate has one name, the Service's; without one, no service has to be resolved.

    With a standby driver, it is called through the relay on loopback, which has the certificate's name in the pod (`control_aliases`).
    """
    key, relayed = dataflow.key, has_standby(dataflow)
    port = PORTS.control_relay if relayed else PORTS.control
    if not dataflow.tls_secret:
        return {"BINSHIFT_CONTROL_URL": f"http://{LOOPBACK if relayed else key.driver_host}:{port}"}
    url = f"https://{key.control_host}:{port}"
    return {"BINSHIFT_CONTROL_URL": url, AUTHORITY_VARIABLE: f"{TLS_DIRECTORY}/{AUTHORITY}"}


def control_aliases(dataflow: Dataflow) -> list[Mapping[str, Any]]:
    """The name of the certificate on an executor's loopback, where the relay to the active driver listens."""
    if not (has_standby(dataflow) and dataflow.tls_secret):
        return []
    return [{"ip": LOOPBACK, "hostnames": [dataflow.key.control_host]}]


def grace_seconds(dataflow: Dataflow, component: str) -> int:
    """The grace period of a pod: for a driver to finish its epoch, for an executor to be drained, and for both to end."""
    drain = dataflow.section("executor").get("drainTimeout") if component == "executor" else None
    if drain is not None:
        return math.ceil(duration(drain)) + ENDING_SECONDS
    given = spec_of(dataflow, component).get("terminationGracePeriodSeconds")
    usual = GRACE_SECONDS if component == "executor" else DRIVER_GRACE_SECONDS
    return usual if not isinstance(given, int) else max(given, ENDING_SECONDS + 1)


def env_from(dataflow: Dataflow) -> list[Mapping[str, Any]]:
    """Whole Secrets as variables: the credentials of the object store."""
    name = dataflow.checkpoint.credentials_secret
    return [] if name is None else [{"secretRef": {"name": name}}]


def _common(key: DataflowKey, service: str) -> dict[str, str | Variable]:
    """The variables of all containers: name, and value or source."""
    return {
        "BINSHIFT_POD": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
        "BINSHIFT_HOST": f"$(BINSHIFT_POD).{service}",
        "BINSHIFT_POD_IP": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
        "_SPARK_AUTH_SECRET": _secret(key, names.SPARK_SECRET),
        "SPARK_CONF_DIR": CONF_DIRECTORY,
    }


def _secret(key: DataflowKey, which: str) -> Variable:
    return {"secretKeyRef": {"name": key.child(Child.KEYS), "key": which}}


def _given(dataflow: Dataflow, component: str) -> list[Variable]:
    found: list[Variable] = (
        dataflow.section(component).get("env") or dataflow.section(component, "pod").get("env") or []
    )
    return found


def _variables(ours: Mapping[str, str | Variable], *given: Iterable[Variable]) -> list[Variable]:
    """One list without duplicates; a later variable replaces an earlier one of its name."""
    found = {name: {"name": name, "value" if isinstance(it, str) else "valueFrom": it} for name, it in ours.items()}
    for each in given:
        found |= {variable["name"]: dict(variable) for variable in each}
    return list(found.values())
