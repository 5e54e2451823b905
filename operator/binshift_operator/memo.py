"""The memo: what one process of the operator keeps about a dataflow between two reconciliations. All of it can be lost without harm.

A memo holds what cannot be observed (how children were last applied, which write keeps failing, since when pods are missing, what
autoscaling remembers) and, for a settled dataflow, the last complete observation. Most objects of a dataflow never change: while it is
settled, each reconciliation reads only the resource, its pods and the runtime, and takes the rest from this cache. Because the cache may
be stale, it can only confirm that the dataflow is still settled; any other outcome is discarded and decided again from a complete
observation. An edit, an event about the dataflow or its children, an action, and the resync interval each end its validity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from binshift_operator.decide.autoscaling import ScalingMemory
from binshift_operator.driver_tls import Access
from binshift_operator.model.apply_attempt import ApplyAttempt
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ClaimState, ObservedState
from binshift_operator.model.specification import Dataflow

TRANSIENT_FAILURES_MAX: Final = 5
"""Consecutive failures of a write after which it is reported; a rejected write is reported at once."""
CONTROL_BACKOFF_SECONDS: Final = 15.0
"""Pause after a timeout of a control API: each request blocks one of a few threads."""
STANDBY_BACKOFF_SECONDS: Final = 3.0
"""The same with a standby driver, which takes over from one that does not answer several times."""


@dataclass(frozen=True, slots=True)
class CachedObservation:
    """A complete observation of a settled dataflow.

    Attributes:
        generation: of the dataflow that was observed.
        observed: the state; its ``now`` is when the observation began.
        access: to the control API; None if there was none. The API's address is not cached: another pod may have it now.
        secrets_hash: see `Dataflow`.
    """

    generation: int
    observed: ObservedState
    access: Access | None
    secrets_hash: str = ""

    def is_valid(self, dataflow: Dataflow, now: float, seconds_max: float) -> bool:
        """Whether it is of the dataflow's generation, and younger than ``seconds_max``."""
        return self.generation == dataflow.generation and 0.0 <= now - self.observed.now < seconds_max

    def has_same_pods(self, observed: ObservedState) -> bool:
        """Whether the pods are still the same."""
        return {pod.uid for pod in self.observed.pods} == {pod.uid for pod in observed.pods}


def cache(dataflow: Dataflow, observed: ObservedState, access: Access | None) -> CachedObservation | None:
    """The cache entry of a settled dataflow; None if there is a problem that a user may fix at any moment."""
    problem = (
        observed.claim is not ClaimState.FINE
        or observed.credentials_missing
        or observed.certificate_problem
        or observed.render_error
        or observed.missing_pods
        or observed.rivals
        or observed.restore_problem
    )
    return None if problem else CachedObservation(dataflow.generation, observed, access, dataflow.secrets_hash)


@dataclass(frozen=True, slots=True)
class FailingWrite:
    """A write that fails: its name, the number of consecutive failures, the last error, and whether a retry cannot help."""

    name: str
    failures: int
    error: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class ControlBackoff:
    """A driver's pod whose control API timed out: the error, and until when no request is sent."""

    error: str
    until: float


@dataclass
class Memo:
    """The memo of one dataflow, identified by its UID."""

    uid: str
    applied: dict[Child, ApplyAttempt] = field(default_factory=dict)
    missing_since: dict[Child, float] = field(default_factory=dict)
    reported_rollouts: dict[Child, str] = field(default_factory=dict)
    failing_write: FailingWrite | None = None
    control_backoff: dict[str, ControlBackoff] = field(default_factory=dict)
    """By the UID of a driver's pod."""
    silent_since: dict[str, float] = field(default_factory=dict)
    """Since when a driver has not answered, by the UID of its pod."""
    cached: CachedObservation | None = None
    secrets_hash: str = ""
    scaling: ScalingMemory = field(default_factory=ScalingMemory)
    nodes: frozenset[str] = frozenset()
    """The nodes of its executors, as last observed."""

    def record_failure(self, name: str, error: str, *, permanent: bool) -> None:
        """Record that a write has failed."""
        last = self.failing_write
        failures = last.failures + 1 if last is not None and last.name == name else 1
        self.failing_write = FailingWrite(name, failures, error, permanent)

    def forget_drivers_except(self, uids: Iterable[str]) -> None:
        """Only the drivers in these pods exist."""
        for known in (self.control_backoff, self.silent_since):
            for uid in known.keys() - set(uids):
                del known[uid]

    @property
    def refusals(self) -> Mapping[str, str]:
        """The errors to report, by the name of the write."""
        write = self.failing_write
        if write is None or not (write.permanent or write.failures >= TRANSIENT_FAILURES_MAX):
            return {}
        return {write.name: write.error if write.permanent else f"{write.error} (tried {write.failures} times)"}

    def track_missing_pods(self, child: Child, missing: bool, now: float) -> float | None:
        """Since when pods of a StatefulSet are missing; None if none is."""
        if not missing:
            self.missing_since.pop(child, None)
            return None
        return self.missing_since.setdefault(child, now)
