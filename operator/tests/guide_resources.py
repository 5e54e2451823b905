"""The resources that the guides name: their schema, conditions and phases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from guides import ROOT
from test_crd import SCHEMA

from binshift_operator.model import names
from binshift_operator.model.snapshots import SnapshotPhase
from binshift_operator.model.status import ConditionType, Phase
from binshift_operator.snapshot_codec import CONDITIONS


@dataclass(frozen=True)
class Resource:
    """A resource: its schema, and what its status can have."""

    schema: Mapping[str, Any]
    conditions: frozenset[str]
    phases: frozenset[str]


_SNAPSHOTS = yaml.safe_load((ROOT / "crds" / f"{names.SNAPSHOT_PLURAL}.yaml").read_text(encoding="utf-8"))
SNAPSHOT: Final = Resource(
    _SNAPSHOTS["spec"]["versions"][0]["schema"]["openAPIV3Schema"], frozenset(CONDITIONS), frozenset(SnapshotPhase)
)
DATAFLOW: Final = Resource(SCHEMA, frozenset(ConditionType), frozenset(Phase))
RESOURCES: Final[Mapping[str, Resource]] = {
    **dict.fromkeys(("sdf", names.KIND.lower(), names.PLURAL), DATAFLOW),
    **dict.fromkeys(("sdfs", names.SNAPSHOT_KIND.lower(), names.SNAPSHOT_PLURAL), SNAPSHOT),
}
"""By the names that kubectl knows."""


def field_at(path: str, resource: Resource = DATAFLOW) -> Mapping[str, Any] | None:
    """The schema of a field such as ``.status.history[0].reason``; None if there is no such field."""
    place: Any = resource.schema
    for name in re.findall(r"\w+|\[\d*\*?\]|\[\?.*?\)\]", path):
        if name.startswith("["):
            place = place.get("items")
        elif place is resource.schema and name == "metadata":
            return {}
        else:
            place = (place.get("properties") or {}).get(name, place.get("additionalProperties"))
        if not isinstance(place, Mapping):
            return None
    found: Mapping[str, Any] = place
    return found
