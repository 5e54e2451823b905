"""The environment variables of the three kinds of containers; see the table in the module of each that reads them.

Later ones win: binshift's own, then those of the application, then those of the pod. The CRD refuses names that are binshift's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from binshift_operator.children.metadata import PORTS
from binshift_operator.children.spark_conf import (
    STATE_DIRECTORY,
    checkpoint_directory,
    executor_memory,
    task_slots,
)
from binshift_operator.model import names
from binshift_operator.model.names import Child, Key
from binshift_operator.model.specification import Dataflow

Variable: TypeAlias = Mapping[str, Any]
CONF_DIRECTORY = "/etc/binshift/spark"


def driver(dataflow: Dataflow) -> list[Variable]:
    """Of the container that runs the program."""
    key = dataflow.key
    ours = [
        *_everywhere(key, key.driver),
        _plain("BINSHIFT_MASTER", f"spark://{key.driver_host}:{PORTS.master}"),
        _plain("BINSHIFT_CONTROL_HOST", "0.0.0.0"),
        _plain("BINSHIFT_CONTROL_PORT", str(PORTS.control)),
        _plain("BINSHIFT_HEALTH_PORT", str(PORTS.health)),
        _secret(key, "BINSHIFT_TOKEN", names.CONTROL_TOKEN),
        _secret(key, "BINSHIFT_DRAIN_TOKEN", names.DRAIN_TOKEN),
        _plain("BINSHIFT_CHECKPOINT", checkpoint_directory(dataflow)),
        _plain("BINSHIFT_OWNER", key.uid),
    ]
    return _joined(ours, _given(dataflow, "application"), _given(dataflow, "driver"))


def master(dataflow: Dataflow) -> list[Variable]:
    """Of the container that runs Spark's master; nothing of the user's."""
    return _joined(_everywhere(dataflow.key, dataflow.key.driver))


def worker(dataflow: Dataflow) -> list[Variable]:
    """Of the container that runs Spark's worker, and so of the executor in it."""
    key = dataflow.key
    ours = [
        *_everywhere(key, key.executor),
        _plain("BINSHIFT_MASTER", f"spark://{key.driver_host}:{PORTS.master}"),
        _plain("BINSHIFT_CONTROL_URL", f"http://{key.driver_host}:{PORTS.control}"),
        _secret(key, "BINSHIFT_DRAIN_TOKEN", names.DRAIN_TOKEN),
        _plain("BINSHIFT_EXECUTOR_MEMORY", executor_memory(dataflow)),
        _plain("BINSHIFT_EXECUTOR_CORES", str(task_slots(dataflow))),
        _plain("BINSHIFT_STORE_DIR", f"{STATE_DIRECTORY}/store"),
        _plain("SPARK_LOCAL_DIRS", f"{STATE_DIRECTORY}/spark"),
    ]
    return _joined(ours, _given(dataflow, "application"), _given(dataflow, "executor"))


def sources(dataflow: Dataflow) -> list[Mapping[str, Any]]:
    """Whole Secrets as variables: the credentials of the object store."""
    name = dataflow.checkpoint.credentials_secret
    return [] if name is None else [{"secretRef": {"name": name}}]


def _everywhere(key: Key, service: str) -> list[Variable]:
    return [
        {"name": "BINSHIFT_POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        _plain("BINSHIFT_HOST", f"$(BINSHIFT_POD).{service}"),
        _secret(key, "_SPARK_AUTH_SECRET", names.SPARK_SECRET),
        _plain("SPARK_CONF_DIR", CONF_DIRECTORY),
    ]


def _plain(name: str, value: str) -> Variable:
    return {"name": name, "value": value}


def _secret(key: Key, name: str, which: str) -> Variable:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": key.child(Child.KEYS), "key": which}}}


def _given(dataflow: Dataflow, component: str) -> list[Variable]:
    part = dataflow.raw.get(component) or {}
    found: list[Variable] = part.get("env") or (part.get("pod") or {}).get("env") or []
    return found


def _joined(*lists: Iterable[Variable]) -> list[Variable]:
    """One list without doubles; a later one takes the place of an earlier one of its name."""
    found: dict[str, Variable] = {}
    for each in lists:
        found |= {variable["name"]: variable for variable in each}
    return list(found.values())
