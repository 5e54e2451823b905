"""Observes the claim of a dataflow's checkpoint."""

from __future__ import annotations

from typing import Final

from binshift_operator.kube import Kube
from binshift_operator.model.observed import ClaimState
from binshift_operator.model.specification import Dataflow

SHARED: Final = "ReadWriteMany"


def observe_claim(kube: Kube, dataflow: Dataflow) -> tuple[ClaimState, str]:
    """The state of the checkpoint's claim, and its access modes and storage class, for messages."""
    name = dataflow.checkpoint.claim
    if name is None:
        return ClaimState.FINE, ""
    claim = kube.get("PersistentVolumeClaim", dataflow.key.namespace, name)
    if claim is None:
        return ClaimState.ABSENT, ""
    spec = claim.get("spec") or {}
    modes, storage_class = spec.get("accessModes") or (), spec.get("storageClassName") or "none"
    kind = f"accessModes {', '.join(map(str, modes)) or 'none'}; storageClassName {storage_class}"
    return ClaimState.FINE if SHARED in modes else ClaimState.NOT_SHARED, kind
