"""Whether a live object is ours, and as rendered.

The API server adds defaults, so only what is rendered is compared; what is rendered no longer is told by a hash of the whole
manifest, kept as an annotation of the object (never of pods: it restarts nothing).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from binshift_operator.children.metadata import Manifest
from binshift_operator.model.names import GROUP, KIND, Key
from binshift_operator.model.quantities import quantity
from binshift_operator.model.world import ChildSeen, Found

ANNOTATION_APPLIED = f"{GROUP}/applied-hash"
QUANTITIES = ("requests", "limits", "sizeLimit", "storage")


def applied_hash(manifest: Mapping[str, Any]) -> str:
    """A short hash of a manifest as rendered."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def stamped(manifest: Manifest) -> Manifest:
    """The manifest with its own hash."""
    metadata = dict(manifest["metadata"])
    metadata["annotations"] = {**metadata.get("annotations", {}), ANNOTATION_APPLIED: applied_hash(manifest)}
    return {**manifest, "metadata": metadata}


def classified(live: Mapping[str, Any] | None, manifest: Manifest | None, key: Key) -> ChildSeen:
    """What a child is like; without a manifest (a Secret), one that is ours is as it should be."""
    if live is None:
        return ChildSeen(Found.ABSENT)
    meta = live["metadata"]
    owners = meta.get("ownerReferences") or []
    ours = any(owner.get("uid") == key.uid and owner.get("controller") for owner in owners)
    if not ours:
        predecessor = any(owner.get("kind") == KIND and owner.get("name") == key.name for owner in owners)
        # Of an earlier dataflow of this name: it is on its way out, with its owner.
        return ChildSeen(Found.GOING if predecessor else Found.FOREIGN, meta.get("uid", ""))
    spec, status = live.get("spec") or {}, live.get("status") or {}
    if "deletionTimestamp" in meta:
        found = Found.GOING
    else:
        found = Found.CURRENT if manifest is None or is_as_rendered(live, manifest) else Found.DRIFTED
    return ChildSeen(
        found,
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        replicas=int(spec.get("replicas") or 0),
        noticed=int(status.get("observedGeneration") or 0) >= int(meta.get("generation") or 0),
    )


def is_as_rendered(live: Mapping[str, Any], manifest: Manifest) -> bool:
    """Whether an object was applied as rendered, and has stayed so."""
    noted = (live["metadata"].get("annotations") or {}).get(ANNOTATION_APPLIED)
    return noted == applied_hash(manifest) and _within(manifest, live, ())


def _within(wanted: Any, live: Any, path: tuple[str, ...]) -> bool:
    """Whether everything in ``wanted`` is in ``live``."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            _within(each, live.get(name), (*path, name)) for name, each in wanted.items() if each not in ({}, [])
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and _list_within(wanted, live, path)
    if wanted == live:
        return True
    return any(part in QUANTITIES for part in path[-2:]) and _same_quantity(wanted, live)


def _list_within(wanted: list[Any], live: list[Any], path: tuple[str, ...]) -> bool:
    if all(isinstance(each, Mapping) and "name" in each for each in wanted):
        named = {each.get("name"): each for each in live if isinstance(each, Mapping)}
        return all(_within(each, named.get(each["name"]), path) for each in wanted)
    return len(wanted) == len(live) and all(_within(a, b, path) for a, b in zip(wanted, live, strict=True))


def _same_quantity(wanted: Any, live: Any) -> bool:
    try:
        return quantity(wanted) == quantity(live)
    except ValueError:
        return False
