"""A pod of a dataflow as observed: its state, by what a user must do about it, and what it was made for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PodState(StrEnum):
    """The state of a pod, by what a user must do about it."""

    FINE = "Fine"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE = "ImagePull"
    CONFIG = "InvalidConfig"
    CRASHING = "Crashing"
    OUT_OF_MEMORY = "OutOfMemory"
    EVICTED = "Evicted"
    NOT_STARTED = "NotStarted"
    """It has a node, but its containers have not started."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the dataflow.

    Attributes:
        slot: its ordinal; ``deleting_since``: when its deletion was requested, None if it was not; ``grace_seconds``: of that deletion.
        finalizers: of other controllers; ``node_lost``: whether it was deleted for a taint of its node, as that of an unreachable one.
        spec_hash, dataflow_hash, keys_hash: the restart class, its dataflow class, and the Secret that it was created for.
        tls_secret: the Secret with a driver's certificate; empty if it speaks plain HTTP.
        state, message: its problem, and the message of the scheduler, the kubelet or the container; ``ready``: by the kubelet.
        state_since, created_at: None if unknown; ``ip``, ``node``: empty while it has none.
        leaves: why it is to leave its node, which is about to go; empty if it stays.
        operator_version: of the operator that rendered its template; empty for pods of older operators.
    """

    name: str
    uid: str
    slot: int
    is_driver: bool
    deleting_since: float | None = None
    grace_seconds: float = 0.0
    node_lost: bool = False
    spec_hash: str = ""
    dataflow_hash: str = ""
    keys_hash: str = ""
    tls_secret: str = ""
    ready: bool = False
    state: PodState = PodState.FINE
    message: str = ""
    created_at: float | None = None
    ip: str = ""
    node: str = ""
    leaves: str = ""
    operator_version: str = ""
    state_since: float | None = None
    finalizers: tuple[str, ...] = ()

    @property
    def only_finalizers_left(self) -> bool:
        """Whether only finalizers keep the ended or force-deleted pod: another deletion has no effect."""
        return self.deleting_since is not None and self.grace_seconds == 0 and bool(self.finalizers)
