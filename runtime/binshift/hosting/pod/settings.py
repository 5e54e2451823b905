"""Environment variables of the processes of a driver pod.

| variable | meaning | default |
|---|---|---|
| ``BINSHIFT_MASTER`` | Spark's master, ``spark://HOST:PORT`` | |
| ``BINSHIFT_HOST`` | this pod's name, by which the others find it | |
| ``BINSHIFT_BIND`` | address to listen on | all: ``::`` where the pod's own is one of IPv6, else 0.0.0.0 |
| ``BINSHIFT_POD_IP`` | this pod's address | |
| ``BINSHIFT_CHECKPOINT`` | where the query's log is | set by the program |
| ``_SPARK_AUTH_SECRET`` | Spark's secret; with one, every connection proves to know it | none |
| ``SPARK_CONF_DIR`` | folder with a ``spark-defaults.conf`` | none |
| ``BINSHIFT_DIRECTORY`` | writable folder | /var/lib/binshift |
| ``BINSHIFT_SPARK_UI`` | ``true``: Spark's UI is enabled, on loopback | ``false`` |
| ``BINSHIFT_DRIVER_HOSTS`` | names of both drivers' pods, if one is a standby: the program waits before its first query until ``POST /v1/activate`` | none |
| ``BINSHIFT_STOP_SECONDS`` | how long a stop in order may take | 100 |
| ``BINSHIFT_TERMINATION_LOG`` | where the reason of a failure is left for Kubernetes | /dev/termination-log |
| ``BINSHIFT_..._PORT`` | ports | `binshift.ports` |
| ``BINSHIFT_CONTROL_HOST``, ``BINSHIFT_TOKEN``, ``BINSHIFT_DRAIN_TOKEN`` | the control API | `binshift.control.serving` |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from binshift.encryption import SECRET_VARIABLE
from binshift.errors import InvalidSettings
from binshift.ports import Ports

DIRECTORY: Final = "/var/lib/binshift"
HOSTS_VARIABLE: Final = "BINSHIFT_DRIVER_HOSTS"
STOP_SECONDS: Final = 100.0


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """See the table above; the secret never shows in a repr."""

    master: str
    host: str
    ports: Ports = field(default_factory=Ports)
    bind: str = "0.0.0.0"
    checkpoint: str = ""
    secret: str = field(default="", repr=False)
    conf: Path | None = None
    directory: Path = Path(DIRECTORY)
    stop_seconds: float = STOP_SECONDS
    termination_log: Path = Path("/dev/termination-log")
    spark_ui: bool = False
    standby: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> DriverSettings:
        """From the variables in the table above.

        Raises:
            InvalidSettings: a variable is missing or does not fit; the message names it.
        """
        master = needed(environment, "BINSHIFT_MASTER")
        address_of(master)
        default, hosts = cls(master, needed(environment, "BINSHIFT_HOST")), driver_hosts(environment)
        if hosts and default.host not in hosts:
            raise InvalidSettings(f"{HOSTS_VARIABLE} is {','.join(hosts)!r}; it must name this pod, {default.host!r}")
        return cls(
            master,
            default.host,
            Ports.from_environment(environment).of_driver(hosts.index(default.host) if hosts else 0),
            environment.get("BINSHIFT_BIND")
            or ("::" if ":" in environment.get("BINSHIFT_POD_IP", "") else default.bind),
            environment.get("BINSHIFT_CHECKPOINT", ""),
            environment.get(SECRET_VARIABLE, ""),
            Path(environment["SPARK_CONF_DIR"]) if environment.get("SPARK_CONF_DIR") else None,
            Path(environment.get("BINSHIFT_DIRECTORY") or DIRECTORY),
            _seconds(environment, "BINSHIFT_STOP_SECONDS", STOP_SECONDS),
            Path(environment.get("BINSHIFT_TERMINATION_LOG") or default.termination_log),
            environment.get("BINSHIFT_SPARK_UI") == "true",
            bool(hosts),
        )


def driver_hosts(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of both drivers' pods, if one is a standby; else none.

    Raises:
        InvalidSettings: there are not two.
    """
    found = tuple(filter(None, environment.get(HOSTS_VARIABLE, "").split(",")))
    if len(set(found)) != len(found) or len(found) not in (0, 2):
        raise InvalidSettings(f"{HOSTS_VARIABLE} is {','.join(found)!r}; it must be two names, separated by a comma")
    return found


def needed(environment: Mapping[str, str], variable: str) -> str:
    """The value of a variable.

    Raises:
        InvalidSettings: it is not set.
    """
    value = environment.get(variable)
    if not value:
        raise InvalidSettings(f"{variable} is not set; set it in the pod's environment")
    return value


def address_of(master: str) -> tuple[str, int]:
    """Host and port of a master's URL.

    Raises:
        InvalidSettings: it is none.

    >>> address_of("spark://clicks-driver-0.clicks-driver:7077")
    ('clicks-driver-0.clicks-driver', 7077)
    """
    found = re.fullmatch(r"spark://([A-Za-z0-9.-]+):(\d{1,5})", master)
    if not found:
        raise InvalidSettings(f"BINSHIFT_MASTER is {master!r}; it must have the form spark://HOST:7077")
    return found[1], int(found[2])


def _seconds(environment: Mapping[str, str], variable: str, default: float) -> float:
    given = environment.get(variable) or str(default)
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidSettings(f"{variable} is {given[:20]!r}; it must be a number of seconds above 0")
    return seconds
