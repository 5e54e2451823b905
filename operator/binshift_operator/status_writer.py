"""Writes the status of a dataflow, to an older CRD without the fields that it lacks.

Helm does not update CRDs. The API server rejects the whole of a server-side apply for one unknown field, and then no status would be written
at all. So the newest fields, all of them optional, are left out from the first such answer until the process ends.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import Final

from binshift_operator.errors import Invalid, Unreachable
from binshift_operator.kube import Kube, Object
from binshift_operator.model.names import API_VERSION, KIND, DataflowKey

log = logging.getLogger(__name__)
NEWEST_FIELDS: Final = (("hotKeys",), ("restoreFrom",), ("rollout", "leavingNodes"))
"""Fields of the status that the CRD of the last release lacks."""
UNDECLARED: Final = "not declared in schema"
"""In the API server's message, with status 500 or 400, about a field that the CRD lacks."""


def has(status: Object, path: tuple[str, ...]) -> bool:
    """Whether a status has a field.

    >>> has({"rollout": {"total": 1}}, ("rollout", "leavingNodes")), has({"rollout": {"total": 1}}, ("rollout", "total"))
    (False, True)
    """
    *parents, name = path
    for parent in parents:
        status = status.get(parent) or {}
    return name in status


def without_newest(status: Object) -> Object:
    """A status without the newest fields.

    >>> without_newest({"phase": "Running", "hotKeys": [], "rollout": {"total": 1, "leavingNodes": ["a"]}})
    {'phase': 'Running', 'rollout': {'total': 1}}
    """
    made = copy.deepcopy(status)
    for *parents, name in NEWEST_FIELDS:
        place = made
        for parent in parents:
            place = place.get(parent) or {}
        place.pop(name, None)
    return made


@dataclass
class StatusWriter:
    """Writes the status of dataflows. Called from any thread."""

    _is_crd_older: bool = False

    def storable(self, status: Object) -> Object:
        """The part of a status that the CRD has, as far as is known: a comparison of others would always find a difference."""
        return without_newest(status) if self._is_crd_older else status

    def write(self, kube: Kube, key: DataflowKey, status: Object) -> None:
        """Write a status, without the newest fields if the CRD lacks one of them.

        Raises:
            OperatorError: the API server does not answer, or rejects it for another reason.
        """
        try:
            stored = _apply(kube, key, status).get("status") or status
        except (Invalid, Unreachable) as error:
            reduced = without_newest(status)
            if UNDECLARED not in str(error) or reduced == status:
                raise
            self._leave_out(str(error))
            _apply(kube, key, reduced)
        else:
            removed = [".".join(path) for path in NEWEST_FIELDS if has(status, path) and not has(stored, path)]
            if removed:
                self._leave_out(f"it has removed {', '.join(removed)}")

    def _leave_out(self, why: str) -> None:
        if not self._is_crd_older:
            log.warning(
                "the installed CRD is older than the operator; hot keys, restored snapshots and nodes that are left are not in the status. "
                "Apply the CRDs of this release (kubectl apply --server-side --force-conflicts --filename charts/binshift/crds/), then "
                "restart the operator. The API server: %s",
                why,
            )
        self._is_crd_older = True


def _apply(kube: Kube, key: DataflowKey, status: Object) -> Object:
    meta = {"name": key.name, "namespace": key.namespace, "uid": key.uid}
    return kube.apply({"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "status": status}, "status")
