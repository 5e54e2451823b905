"""The Secret with the tokens of the control API and Spark's own secret: made once, never written over."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from binshift_operator.children.metadata import Manifest, child
from binshift_operator.model.names import KEYS, Child, DataflowKey


def render_secret(key: DataflowKey, draw: Callable[[], str]) -> Manifest:
    """The Secret to create; ``draw`` gives a fresh random token each time."""
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
    """What tells one set of keys from another; the keys are random and long, so that it tells nothing else of them."""
    return hashlib.sha256("\0".join(found[name] for name in KEYS).encode()).hexdigest()[:16]
