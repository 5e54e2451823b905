"""The part of the status about the drivers of a dataflow with a standby."""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.model.driver_status import DriverStatus
from binshift_operator.model.situation import Situation


def driver_status(situation: Situation) -> DriverStatus | None:
    """The active driver, as far as is known, and the standby that could take over; None without a standby in spec and pods."""
    observed, last = situation.observed, situation.before.driver or DriverStatus()
    if not observed.reports:
        return None
    waiting = [pod for pod in observed.drivers if observed.report_of(pod).waits and pod.deleting_since is None]
    runtime = observed.report_of(waiting[-1]).runtime if waiting else None
    standby, warm = waiting[-1].name if waiting else "", len(runtime.registered) if runtime is not None else 0
    driver = observed.driver
    if driver is not None and observed.report_of(driver).is_active:
        return DriverStatus(driver.name, driver.uid, standby, warm)
    return replace(last, standby=standby, warm_executors=warm)
