"""Writes the status of a dataflow, to an older CRD without the fields that it lacks.

Helm does not update CRDs. The API server rejects the whole of a server-side apply for one unknown field, and then no status would be written
at all. So the newest fields, all of them optional, are left out from the first such answer until the process ends.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from binshift_operator.errors import Invalid, Unreachable
from binshift_operator.kube import Kube, Object
from binshift_operator.model.names import API_VERSION, DataflowKey, SnapshotKey

log = logging.getLogger(__name__)
NEWEST_FIELDS: Final = (("hotKeys",), ("restoreFrom",), ("rollout", "leavingNodes"), ("driver",))
"""Fields of the status that the CRD of the last release lacks."""
UNDECLARED: Final = "not declared in schema"
"""In the API server's message, with status 500 or 400, about a field that the CRD lacks."""


def without_newest(status: Object) -> Object:
    """A status without the newest fields.

    >>> without_newest({"phase": "Running", "hotKeys": [], "rollout": {"total": 1, "leavingNodes": ["a"]}})
    {'phase': 'Running', 'rollout': {'total': 1}}
    """
    made = copy.deepcopy(status)
    for *parents, name in NEWEST_FIELDS:
        (_parent(made, parents) or {}).pop(name, None)
    return made


def _parent(status: Object, parents: Sequence[str]) -> Object | None:
    """The object in a status that has a field, by the names on the way to it; None if there is none."""
    found: Object | None = status
    for parent in parents:
        found = (found or {}).get(parent)
    return found


def _has(status: Object, path: Sequence[str]) -> bool:
    return path[-1] in (_parent(status, path[:-1]) or {})


def apply_status(kube: Kube, key: DataflowKey | SnapshotKey, status: Object) -> Object:
    """Write the whole status of an object, only if it still has this UID; returns the object as stored. Errors as `Kube.apply`."""
    meta = {"name": key.name, "namespace": key.namespace, "uid": key.uid}
    return kube.apply({"apiVersion": API_VERSION, "kind": key.kind, "metadata": meta, "status": status}, "status")


@dataclass
class StatusWriter:
    """Writes the status of dataflows, and remembers what an older CRD lacks of it. Called from any thread."""

    _is_crd_older: bool = False
    _written: dict[tuple[str, str], tuple[str, Object]] = field(default_factory=dict)

    def stored(self, found: Object) -> Object:
        """The status of a dataflow, with the fields that this process has left out of it: else these would be changes in each reconciliation."""
        status: Object = found.get("status") or {}
        meta = found["metadata"]
        uid, written = self._written.get((meta["namespace"], meta["name"]), ("", {}))
        if uid != meta["uid"]:
            return status
        made = copy.deepcopy(status)
        for *parents, name in NEWEST_FIELDS:
            source, place = _parent(written, parents), _parent(made, parents)
            if made and source is not None and name in source and place is not None:
                place[name] = source[name]
        return made

    def write(self, kube: Kube, key: DataflowKey, status: Object) -> None:
        """Write a status, without the newest fields if the CRD lacks one of them.

        Raises:
            OperatorError: the API server does not answer, or rejects it for another reason.
        """
        if not self._is_crd_older:
            try:
                stored = apply_status(kube, key, status).get("status") or status
            except (Invalid, Unreachable) as error:
                if UNDECLARED not in str(error) or without_newest(status) == status:
                    raise
                self._leave_out(str(error))
            else:
                removed = [".".join(path) for path in NEWEST_FIELDS if _has(status, path) and not _has(stored, path)]
                if removed:
                    self._leave_out(f"it has removed {', '.join(removed)}")
        if self._is_crd_older:
            apply_status(kube, key, without_newest(status))
            self._written[key.namespace, key.name] = key.uid, status

    def forget(self, namespace: str, name: str) -> None:
        """Drop what is known about a dataflow that is gone."""
        self._written.pop((namespace, name), None)

    def _leave_out(self, why: str) -> None:
        if not self._is_crd_older:
            log.warning(
                "the installed CRD is older than the operator; hot keys, restored snapshots and nodes that are left are not in the status. "
                "Apply the CRDs of this release (kubectl apply --server-side --force-conflicts --filename charts/binshift/crds/), then "
                "restart the operator. The API server: %s",
                why,
            )
        self._is_crd_older = True
