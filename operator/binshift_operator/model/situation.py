"""The situation of one dataflow: everything that a decision and a status are computed from."""

from __future__ import annotations

from dataclasses import dataclass

from binshift_operator.model.observed import ObservedRuntime, ObservedState, RunState
from binshift_operator.model.reasons import ProgressingReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status
from binshift_operator.model.timeouts import Timeouts


@dataclass(frozen=True, slots=True)
class Situation:
    """The spec, the observed state, the last status, and the operator's timeouts."""

    dataflow: Dataflow
    observed: ObservedState
    before: Status
    timeouts: Timeouts

    @property
    def running(self) -> ObservedRuntime | None:
        """The runtime, if its query runs and reports its route."""
        runtime = self.observed.runtime
        runs = runtime is not None and runtime.state is RunState.RUNNING and runtime.route_version is not None
        return runtime if runs else None

    @property
    def has_finished(self) -> bool:
        """Whether it is recorded that the program of this spec has ended by itself."""
        return self.before.has_finished(self.dataflow.generation, self.dataflow.restart_hash)

    def awaited_seconds(self, *reasons: ProgressingReason) -> float | None:
        """How long one of these has been awaited; None if it is not."""
        awaiting = self.before.awaiting
        return None if awaiting is None or awaiting.reason not in reasons else self.observed.now - awaiting.since
