"""The observed state: the children, the pods, the claim and the runtime of one dataflow at one moment, as decisions need them.

Only `binshift_operator.observe` creates it. What is unknown is None, never an invented value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from binshift_operator.model.names import Child
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.snapshot_spec import RestoreProblem

REVISIONS: Final = 1_000_000
"""A target's generation is that of the object times this, plus a revision: the same spec can be requested again, after a failed migration
or with the available workers. The factor is fixed: with a smaller one, the runtime would ignore every new target."""


class ChildState(StrEnum):
    """The state of a child."""

    ABSENT = "Absent"
    CURRENT = "Current"
    """Ours, and as rendered."""
    DRIFTED = "Drifted"
    """Ours, and different from the rendered manifest."""
    CONTESTED = "Kept"
    """Ours, and different although it was applied recently: another client keeps changing it."""
    DELETING = "Going"
    """Ours, and being deleted."""
    FOREIGN = "Foreign"
    """It has the child's name, and is not ours."""


@dataclass(frozen=True, slots=True)
class ObservedChild:
    """A child, or its absence. Numbers are 0, and texts empty, where they do not apply."""

    state: ChildState
    uid: str = ""
    resource_version: str = ""
    replicas: int = 0
    """Requested of a StatefulSet."""
    max_unavailable: int = 0
    """Of a disruption budget."""
    requested_max_unavailable: int = 0
    """Recently requested of a disruption budget."""
    restarted_at: str = ""
    """When `kubectl rollout restart` was last run on a StatefulSet."""
    is_generation_observed: bool = True
    """Whether a StatefulSet's controller has seen its newest version, and creates pods from that."""
    retry_due: bool = False
    """Whether it is time to apply a contested child again."""
    overwritten_by: str = ""
    """The other operator that had replaced our application when this was observed."""
    rival: str = ""
    """The other operator that keeps overwriting this child."""


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


class ClaimState(StrEnum):
    """Whether the checkpoint's claim can be used: it must be ReadWriteMany."""

    FINE = "Fine"
    ABSENT = "Absent"
    NOT_SHARED = "NotShared"


@dataclass(frozen=True, slots=True)
class MissingPods:
    """Pods that a StatefulSet's controller has not created: how many, since when that was observed, and its error."""

    count: int
    since: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The whole observed state.

    Attributes:
        now: seconds since 1970; ``keys_hash``: the fingerprint of the Secret, None if it does not exist or lacks a key.
        runtime: None if the control API does not answer; ``unreachable``: the address that was requested, and why it does not.
        claim: see `ClaimState`; ``claim_kind``: its access modes and storage class; ``restore_problem``: see `RestoreProblem`.
        credentials_missing, account_missing: the Secret for the object store, and the user's ServiceAccount, that do not exist.
        certificate_problem: why the Secret with the driver's certificate cannot be used; empty if it can.
        refusals: the error of each write that was rejected, or keeps failing, by its name.
        render_error, unrenderable: why some children cannot be rendered from the spec (empty if all can), and which.
        missing_pods: StatefulSets with too few pods; ``operator_version``: of this operator; ``operator_namespace``: its namespace.
        rivals: the message about two operators that overwrite each other's children; empty if there are none.
    """

    now: float
    children: Mapping[Child, ObservedChild]
    pods: tuple[Pod, ...] = ()
    keys_hash: str | None = None
    runtime: ObservedRuntime | None = None
    unreachable: str = ""
    claim: ClaimState = ClaimState.FINE
    claim_kind: str = ""
    credentials_missing: str | None = None
    account_missing: str | None = None
    certificate_problem: str = ""
    restore_problem: RestoreProblem | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)
    render_error: str = ""
    unrenderable: frozenset[Child] = frozenset()
    missing_pods: Mapping[Child, MissingPods] = field(default_factory=dict)
    rivals: str = ""
    operator_version: str = ""
    operator_namespace: str = ""

    @property
    def driver(self) -> Pod | None:
        """The driver's pod."""
        return next((pod for pod in self.pods if pod.is_driver), None)

    @property
    def has_live_driver(self) -> bool:
        """Whether there is a driver's pod that is not being deleted."""
        return self.driver is not None and self.driver.deleting_since is None

    @property
    def runtime_state(self) -> RunState | None:
        """The state of the program; None if the control API does not answer."""
        return None if self.runtime is None else self.runtime.state

    @property
    def silence(self) -> str:
        """The message about a control API that does not answer."""
        return f"the driver does not answer: {self.unreachable}"

    @property
    def executors(self) -> tuple[Pod, ...]:
        """The executors' pods, by slot."""
        return tuple(sorted((pod for pod in self.pods if not pod.is_driver), key=lambda pod: pod.slot))
