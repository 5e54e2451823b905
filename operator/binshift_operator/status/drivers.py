"""The part of the status about the drivers of a dataflow with a standby."""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.model.driver_status import DriverStatus
from binshift_operator.model.drivers import SILENT
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.situation import Situation


def driver_status(situation: Situation) -> DriverStatus | None:
    """The active driver, as far as is known, and the standby that could take over; None without a standby in spec and pods."""
    observed, last = situation.observed, situation.before.driver or DriverStatus()
    if not observed.reports:
        return None
    standby = ""
    for pod in observed.drivers:
        report = observed.reports.get(pod.uid, SILENT)
        waits = report.runtime is not None and report.runtime.state is RunState.STANDBY and report.is_standby
        standby = pod.name if waits and pod.deleting_since is None else standby
    driver = observed.driver
    if driver is not None and observed.reports.get(driver.uid, SILENT).is_active:
        return DriverStatus(driver.name, driver.uid, standby)
    return replace(last, standby=standby)
