"""What is: the children, the pods, the claim and the runtime of one dataflow at one moment, as decisions need them.

Made by `binshift_operator.observe` and by nobody else. What is not known is None, never a made-up value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from binshift_operator.model.names import Child
from binshift_operator.model.status import MigrationStatus

REVISIONS: Final = 1_000_000
"""A target's generation is that of the object times this, plus a revision: the same spec can be asked for again, after a
migration that failed, or with the workers there are. The factor is fixed: with a smaller one, the runtime would ignore every new target."""


class ChildState(StrEnum):
    """What a child is like."""

    ABSENT = "Absent"
    CURRENT = "Current"
    """Ours, and as it should be."""
    DRIFTED = "Drifted"
    """Ours, and different from what it should be."""
    CONTESTED = "Kept"
    """Ours, and different although it was just applied as it should be: as good as it gets."""
    DELETING = "Going"
    """Ours, and being deleted."""
    FOREIGN = "Foreign"
    """Of the same name, and not ours."""


@dataclass(frozen=True, slots=True)
class ApplyAttempt:
    """How a child was last applied: the hash of what was applied, how often that did not last, and when."""

    manifest_hash: str
    attempts: int
    at: float
    max_unavailable: int = 0
    """The number requested of a disruption budget; 0 for others."""
    overwritten: int = 0
    """How often another operator's application was found in place of it."""
    rival: str = ""
    """That operator, by the name that it gives itself."""


@dataclass(frozen=True, slots=True)
class ObservedChild:
    """A child, or its absence."""

    state: ChildState
    uid: str = ""
    resource_version: str = ""
    replicas: int = 0
    """What a StatefulSet is asked for; 0 for others."""
    max_unavailable: int = 0
    """How many pods a disruption budget lets be unavailable; 0 for others."""
    requested_max_unavailable: int = 0
    """The number recently requested of a disruption budget; 0 if none was, and for others."""
    restarted_at: str = ""
    """When `kubectl rollout restart` was last asked of a StatefulSet; empty if it never was."""
    is_generation_observed: bool = True
    """Whether a StatefulSet's controller has seen its newest version: a pod it makes now is made from that."""
    retry_due: bool = False
    """Whether it is time to apply a kept child once more."""
    overwritten_by: str = ""
    """The other operator whose application was found in place of ours just now; empty if there is none."""
    rival: str = ""
    """The other operator that writes this child over time and again; empty if there is none."""


class PodState(StrEnum):
    """How a pod does, by what a person would have to do about it."""

    FINE = "Fine"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE = "ImagePull"
    CONFIG = "InvalidConfig"
    CRASHING = "Crashing"
    OUT_OF_MEMORY = "OutOfMemory"
    EVICTED = "Evicted"
    NOT_STARTED = "NotStarted"
    """It has a node, and containers that have not started yet."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the dataflow.

    Attributes:
        slot: the ordinal.
        deleting_since: when it was asked to end; None if it was not.
        grace_seconds: how long it was given for that.
        finalizers: of other controllers; binshift sets none on its pods.
        node_lost: whether it was deleted for a taint of its node, as that of a node that does not answer.
        spec_hash: the restart class it was made for.
        keys_hash: the Secret it was made with.
        ready: whether the kubelet says so.
        state: what is wrong with it.
        state_since: since when it has been in that state; None if that is not known.
        message: what the scheduler, the kubelet or the container says about that.
        restarts: of its containers, together.
        created_at: when it was made; None if that is not known.
        ip: its address; empty while it has none.
        operator_version: of the operator that rendered its template; empty if it was made before that was noted.
    """

    name: str
    uid: str
    slot: int
    is_driver: bool
    deleting_since: float | None = None
    grace_seconds: float = 0.0
    node_lost: bool = False
    spec_hash: str = ""
    keys_hash: str = ""
    ready: bool = False
    state: PodState = PodState.FINE
    message: str = ""
    restarts: int = 0
    created_at: float | None = None
    ip: str = ""
    operator_version: str = ""
    state_since: float | None = None
    finalizers: tuple[str, ...] = ()

    @property
    def only_finalizers_left(self) -> bool:
        """Whether the pod has ended, or was force-deleted, and only finalizers keep it: another deletion has no effect."""
        return self.deleting_since is not None and self.grace_seconds == 0 and bool(self.finalizers)


class RunState(StrEnum):
    """What the control API says the program is doing."""

    LOADING = "Loading"
    RUNNING = "Running"
    STOPPED = "Stopped"
    FINISHED = "Finished"
    FAILED = "Failed"
    FENCED = "Fenced"


@dataclass(frozen=True, slots=True)
class ObservedTarget:
    """The runtime's desired target."""

    owner: str
    generation: int
    workers: frozenset[int]
    settled: bool


@dataclass(frozen=True, slots=True)
class RunningEpoch:
    """The epoch that runs now.

    Attributes:
        seconds: since its first run began, by the driver's own clock.
        runs: how many runs of it have begun.
        part: what it is at, in the runtime's words (`binshift.engine.epoch_progress`); empty if it does not say.
        last_error: why its newest failed run failed; empty if none has.
    """

    epoch: int
    seconds: float
    runs: int = 1
    part: str = ""
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class ObservedRuntime:
    """What the control API says; times in seconds since 1970.

    Attributes:
        epoch: newest recorded; -1 before the first.
        holding: workers that own bins.
        registered: workers with a live executor.
        failures: how often in a row the program has failed; 0 while it only starts or waits for its executors.
        stopping: whether its query was asked to stop, and has not yet.
        running_epoch: the epoch that runs; None between epochs, as while there is no input, and if the driver does not say.
        latency_p99: record latency in seconds.
        migration: the one under way, else the newest.
        migration_workers: who shall share the bins; None where single bins were moved.
        version: of binshift in the driver; empty if it does not say.
    """

    state: RunState
    reason: str = ""
    failures: int = 0
    stopping: bool = False
    epoch: int = -1
    committed_at: float | None = None
    running_epoch: RunningEpoch | None = None
    route_version: int | None = None
    holding: frozenset[int] = frozenset()
    registered: frozenset[int] = frozenset()
    target: ObservedTarget | None = None
    latency_p99: float | None = None
    migration: MigrationStatus | None = None
    migration_workers: frozenset[int] | None = None
    version: str = ""


class ClaimState(StrEnum):
    """Whether the checkpoint's claim can be used."""

    FINE = "Fine"
    ABSENT = "Absent"
    NOT_SHARED = "NotShared"
    """Its access modes do not include ReadWriteMany."""


@dataclass(frozen=True, slots=True)
class MissingPods:
    """Pods that a StatefulSet's controller has not made: how many, since when that was first seen, and what it says."""

    count: int
    since: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ObservedState:
    """Everything that is.

    Attributes:
        now: seconds since 1970.
        keys_hash: the fingerprint of the Secret; None if it is not there or lacks a key.
        runtime: what the control API says; None if it does not answer.
        unreachable: why it does not.
        credentials_missing: the name of the Secret for the object store, if it is not there.
        account_missing: the name of the user's ServiceAccount for the pods, if it does not exist.
        refusals: which writes were refused, or fail time and again, and why; by what was to be done.
        render_error: why some children cannot be rendered: the spec asks for what cannot be; empty if it does not.
        unrenderable: those children.
        missing_pods: StatefulSets with fewer pods than they should have.
        operator_version: of the operator that looks.
        rivals: which two operators write over each other's children; empty if none do.
    """

    now: float
    children: Mapping[Child, ObservedChild]
    pods: tuple[Pod, ...] = ()
    keys_hash: str | None = None
    runtime: ObservedRuntime | None = None
    unreachable: str = ""
    claim: ClaimState = ClaimState.FINE
    credentials_missing: str | None = None
    account_missing: str | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)
    render_error: str = ""
    unrenderable: frozenset[Child] = frozenset()
    missing_pods: Mapping[Child, MissingPods] = field(default_factory=dict)
    rivals: str = ""
    operator_version: str = ""

    @property
    def driver(self) -> Pod | None:
        """The driver's pod."""
        return next((pod for pod in self.pods if pod.is_driver), None)

    @property
    def executors(self) -> tuple[Pod, ...]:
        """The executors' pods, by slot."""
        return tuple(sorted((pod for pod in self.pods if not pod.is_driver), key=lambda pod: pod.slot))
