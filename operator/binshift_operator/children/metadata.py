"""Names, labels and owners of children."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from binshift.ports import Ports
from binshift_operator.model import names
from binshift_operator.model.names import DataflowKey

Manifest: TypeAlias = dict[str, Any]
PORTS: Final = Ports()


def labels(key: DataflowKey, component: str | None = None) -> dict[str, str]:
    """The labels of a child; of pods and what selects them, with their component."""
    found = {
        names.LABEL_NAME: "binshift",
        names.LABEL_INSTANCE: key.name,
        names.LABEL_MANAGED_BY: names.FIELD_MANAGER,
        names.LABEL_UID: key.uid,
    }
    return found if component is None else {**found, names.LABEL_COMPONENT: component}


def selector(key: DataflowKey, component: str) -> dict[str, str]:
    """The labels that tell the pods of one component: by the owner's UID, as names may come again."""
    return {names.LABEL_UID: key.uid, names.LABEL_COMPONENT: component}


def selector_text(key: DataflowKey, component: str) -> str:
    """The same for a query or a scale subresource."""
    return ",".join(f"{name}={value}" for name, value in selector(key, component).items())


def owner(key: DataflowKey) -> dict[str, Any]:
    """The owner reference: a child goes with its dataflow."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": key.name,
        "uid": key.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def child(
    api_version: str, kind: str, name: str, key: DataflowKey, component: str | None = None, **body: Any
) -> Manifest:
    """A child's manifest."""
    metadata = {
        "name": name,
        "namespace": key.namespace,
        "labels": labels(key, component),
        "ownerReferences": [owner(key)],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
