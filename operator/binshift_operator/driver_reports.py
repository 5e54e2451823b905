"""Asks the drivers of a dataflow for their state, and keeps since when each has not answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from binshift_operator.driver_access import NO_POD, NO_TOKEN, DriverAccess, report
from binshift_operator.driver_client import DriverClient
from binshift_operator.driver_tls import Access
from binshift_operator.memo import CONTROL_BACKOFF_SECONDS, STANDBY_BACKOFF_SECONDS, ControlBackoff, Memo
from binshift_operator.model.drivers import SILENT, DriverReport, choose_driver
from binshift_operator.model.names import DataflowKey
from binshift_operator.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Drivers:
    """What the drivers answer: the chosen one, with its client, and all of them by the UIDs of their pods if there can be several."""

    chosen: DriverReport
    client: DriverClient | None = None
    clients: Mapping[str, DriverClient] = field(default_factory=dict)
    reports: Mapping[str, DriverReport] = field(default_factory=dict)


def ask_drivers(
    caller: DriverAccess,
    key: DataflowKey,
    access: Access | None,
    drivers: Sequence[Pod],
    memo: Memo,
    now: float,
    *,
    several: bool,
) -> Drivers:
    """The clients of the drivers' control APIs, and their responses or the reasons for which there are none."""
    if access is None or not drivers:
        return Drivers(DriverReport(None, NO_TOKEN if access is None else NO_POD))
    clients, reports = dict[str, DriverClient](), dict[str, DriverReport]()
    for pod in drivers:
        client = caller.client_at(key, access, pod)
        if isinstance(client, str):
            reports[pod.uid] = _with_silence(report(client), pod, memo, now)
        else:
            clients[pod.uid] = client
            reports[pod.uid] = ask(client, pod, memo, now, several=several)
    memo.forget_drivers_except(reports)
    chosen = choose_driver(drivers, reports)
    uid = "" if chosen is None else chosen.uid
    return Drivers(reports.get(uid, SILENT), clients.get(uid), clients, reports if several else {})


def ask(client: DriverClient, driver: Pod, memo: Memo, now: float, *, several: bool) -> DriverReport:
    """The response of one control API, or the reason for which there is none. After a timeout there is no request for a while."""
    backoff = memo.control_backoff.get(driver.uid)
    if backoff is not None and now < backoff.until:
        return _with_silence(DriverReport(None, backoff.error, timed_out=True), driver, memo, now)
    found = report(client)
    if found.timed_out:
        pause = STANDBY_BACKOFF_SECONDS if several else CONTROL_BACKOFF_SECONDS
        memo.control_backoff[driver.uid] = ControlBackoff(found.error, now + pause)
    return _with_silence(found, driver, memo, now)


def _with_silence(found: DriverReport, driver: Pod, memo: Memo, now: float) -> DriverReport:
    if found.runtime is not None:
        memo.silent_since.pop(driver.uid, None)
        return found
    return replace(found, silent_since=memo.silent_since.setdefault(driver.uid, now))
