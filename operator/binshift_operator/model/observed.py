"""The observed state: the children, the pods, the claim and the runtime of one dataflow at one moment, as decisions need them.

Only `binshift_operator.observe` creates it. What is unknown is None, never an invented value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from binshift_operator.model.drivers import SILENT, DriverReport, choose_driver
from binshift_operator.model.names import Child
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.pods import Pod
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
        reports: of each driver, by the UID of its pod, if there can be several; ``runtime`` is that of `driver`.
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
    reports: Mapping[str, DriverReport] = field(default_factory=dict)
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
        """The driver's pod; of several, that of the active driver, or else the likeliest to be it."""
        return choose_driver(self.pods, self.reports)

    @property
    def drivers(self) -> tuple[Pod, ...]:
        """The drivers' pods: one, or two with a standby."""
        return tuple(pod for pod in self.pods if pod.is_driver)

    def report_of(self, pod: Pod) -> DriverReport:
        """What the driver in a pod answers, if there can be several."""
        return self.reports.get(pod.uid, SILENT)

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
