"""Names, labels and owners of children, and the Secret with the tokens of the control API and Spark's secret."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from binshift.ports import Ports
from binshift_operator.model import names
from binshift_operator.model.names import KEYS, Child, DataflowKey

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
    """The labels that select the pods of one component: by the owner's UID, as names can be reused."""
    return {names.LABEL_UID: key.uid, names.LABEL_COMPONENT: component}


def selector_text(key: DataflowKey, component: str) -> str:
    """The same for a query or a scale subresource."""
    return ",".join(f"{name}={value}" for name, value in selector(key, component).items())


def owner(key: DataflowKey) -> dict[str, Any]:
    """The owner reference: a child is deleted with its dataflow."""
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


def render_secret(key: DataflowKey, draw: Callable[[], str]) -> Manifest:
    """The Secret, which is created once and never overwritten; ``draw`` returns a new random token."""
    data = {name: base64.b64encode(draw().encode()).decode() for name in KEYS}
    return child("v1", "Secret", key.child(Child.KEYS), key, type="Opaque", data=data)


def read_keys(secret: Mapping[str, Any]) -> dict[str, str] | None:
    """The keys in a Secret; None if one is missing, empty or unreadable."""
    data = secret.get("data") or {}
    try:
        found = {name: base64.b64decode(data[name], validate=True).decode("ascii") for name in KEYS}
    except (KeyError, TypeError, binascii.Error, UnicodeDecodeError):
        return None
    return found if all(found.values()) else None


def hash_keys(found: Mapping[str, str]) -> str:
    """The fingerprint of a set of keys; it discloses nothing, as the keys are random and long."""
    return hashlib.sha256("\0".join(found[name] for name in KEYS).encode()).hexdigest()[:16]
