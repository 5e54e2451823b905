"""The drivers of a dataflow: what each reports, and which of them is the active one.

A dataflow with `spec.driver.standby` has two drivers. Each waits before its first query until it is activated, and stays active until its
process ends; so the drivers themselves know which is the active one, and no record of it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.pods import Pod
from binshift_operator.model.specification import Dataflow

DRIVERS_WITH_STANDBY: Final = 2


@dataclass(frozen=True, slots=True)
class DriverReport:
    """What the control API of one driver answers.

    Attributes:
        runtime: None if it does not answer; ``error``: why; ``timed_out``: whether it may be alive, as nothing has refused the connection.
        silent_since: when this operator first had no answer, in seconds since 1970; None while it answers.
    """

    runtime: ObservedRuntime | None
    error: str = ""
    timed_out: bool = False
    silent_since: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is known to be the active driver. One of an older version always is."""
        return self.runtime is not None and self.runtime.active is not False

    @property
    def is_standby(self) -> bool:
        """Whether it is known not to be the active driver."""
        return self.runtime is not None and self.runtime.active is False

    @property
    def waits(self) -> bool:
        """Whether its program has been loaded, and waits for the activation."""
        return self.is_standby and self.runtime is not None and self.runtime.state is RunState.STANDBY

    @property
    def is_fenced(self) -> bool:
        """Whether another driver has taken the checkpoint from it."""
        return self.runtime is not None and self.runtime.state is RunState.FENCED


SILENT: Final = DriverReport(None)


def has_standby(dataflow: Dataflow) -> bool:
    """Whether the spec has a standby driver."""
    return dataflow.section("driver").get("standby") is True


def driver_count(dataflow: Dataflow) -> int:
    """The number of drivers' pods."""
    return DRIVERS_WITH_STANDBY if has_standby(dataflow) else 1


def choose_driver(pods: Iterable[Pod], reports: Mapping[str, DriverReport]) -> Pod | None:
    """The pod of the active driver; if none is known to be, one that does not answer, or else a standby. None: there is no driver."""

    def rank(pod: Pod) -> tuple[int, bool, bool, bool, int]:
        report = reports.get(pod.uid, SILENT)
        kind = 0 if report.is_active else 2 if report.is_standby else 1
        return kind, pod.deleting_since is not None, report.is_fenced, not pod.ready, pod.slot

    return min((pod for pod in pods if pod.is_driver), key=rank, default=None)
