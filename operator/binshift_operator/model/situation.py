"""The situation of one dataflow: everything that a decision and a status are computed from; and the operator's timeouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binshift_operator.model.autoscaling import AutoscalingStatus
from binshift_operator.model.observed import ObservedState
from binshift_operator.model.observed_runtime import ObservedRuntime, ObservedTarget, RunState
from binshift_operator.model.reasons import ProgressingReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the operator waits.

    Attributes:
        registration_wait_seconds: for new executors to register; after that, the bins are shared by the registered ones.
        stop_wait_seconds: for a control API that does not answer; after that, its driver is deleted without stopping the query.
        stop_seconds_max: for a query to stop; after that, its pod is deleted (which also stops it).
        lost_node_seconds: for a pod to end after its grace period (its node may be lost); after that, it is deleted by force.
        retry_seconds: after a failed migration, before it is retried.
        take_over_seconds: for an active driver that does not answer, or that finishes its epoch before its pod ends; after that, the standby
            takes over.
        fresh_seconds: maximum age of the newest epoch of a healthy stream.
        unreachable_seconds: for a control API that does not answer, before it is reported.
        driver_start_seconds: for a new driver's pod to become ready, before it is expected to answer anyway.
        pods_wait_seconds: for a StatefulSet to create its pods, and for an image pull, before a failure is reported.
        unplaced_seconds: for a pod to be scheduled, started, or replaced after an eviction, before it is reported.
        epoch_seconds_max: for an epoch to be committed after its start, before it is reported as stuck.
        rest_seconds: between two reconciliations of a settled dataflow.
        load_seconds: the same with autoscaling, which reads the load.
        busy_seconds: between two reconciliations otherwise.
    """

    registration_wait_seconds: float = 120.0
    stop_wait_seconds: float = 30.0
    stop_seconds_max: float = 300.0
    lost_node_seconds: float = 30.0
    retry_seconds: float = 15.0
    take_over_seconds: float = 10.0
    fresh_seconds: float = 30.0
    unreachable_seconds: float = 120.0
    driver_start_seconds: float = 300.0
    pods_wait_seconds: float = 30.0
    unplaced_seconds: float = 180.0
    epoch_seconds_max: float = 300.0
    rest_seconds: float = 10.0
    load_seconds: float = 2.0
    busy_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Situation:
    """The spec, the observed state, the last status, and the operator's timeouts.

    Attributes:
        dataflow: with the number of executors that autoscaling has put in force, if it is on.
        autoscaling: what it has decided; None: it is off.
        rebalance: why the executors should share the bins by their present load; empty if they should not.
        retries: whether the target is requested again although its migration has timed out.
    """

    dataflow: Dataflow
    observed: ObservedState
    before: Status
    timeouts: Timeouts
    autoscaling: AutoscalingStatus | None = None
    rebalance: str = ""
    retries: bool = False

    @property
    def running(self) -> ObservedRuntime | None:
        """The runtime, if its query runs and reports its route."""
        runtime = self.observed.runtime
        runs = runtime is not None and runtime.state is RunState.RUNNING and runtime.route_version is not None
        return runtime if runs else None

    @property
    def settled_target(self) -> ObservedTarget | None:
        """The runtime's target, if it is settled and of this dataflow: generations of an earlier dataflow are unrelated."""
        target = None if self.running is None else self.running.target
        return target if target is not None and target.settled and target.owner == self.dataflow.key.uid else None

    def overdue(self, waiting: Mapping[int, float]) -> frozenset[int]:
        """The slots that have been waiting for longer than executors are waited for. ``waiting``: as in `Status.waiting`."""
        now, most = self.observed.now, self.timeouts.registration_wait_seconds
        return frozenset(slot for slot, since in waiting.items() if now - since > most)

    @property
    def suspends(self) -> bool:
        """Whether the stream is suspended, or about to be: an edit of a paused dataflow has no effect yet."""
        return self.dataflow.suspend and not (self.dataflow.paused and self.running)

    @property
    def has_finished(self) -> bool:
        """Whether it is recorded that the program of this spec has ended by itself."""
        return self.before.has_finished(self.dataflow.generation, self.dataflow.restart_hash)

    def awaited_seconds(self, *reasons: ProgressingReason) -> float | None:
        """How long one of these has been awaited; None if it is not."""
        awaiting = self.before.awaiting
        return None if awaiting is None or awaiting.reason not in reasons else self.observed.now - awaiting.since
